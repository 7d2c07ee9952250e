package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/media"
)

// TestSendWatch sends media from user space now and then.
func TestSendWatch(t *testing.T) {
	var w sendWatch
	now := time.Now()
	for _, step := range []struct {
		wait time.Duration
		sent uint64
		want time.Duration
	}{
		{0, 0, coalesceDelay},
		{0, 3, 0},
		{coalesceAfter - 1, 3, 0},
		{1, 3, coalesceDelay},
		{time.Hour, 3, coalesceDelay},
		{0, 4, 0},
		{coalesceAfter - 1, 5, 0},
		{coalesceAfter - 1, 5, 0},
		{1, 5, coalesceDelay},
		{0, 4, coalesceDelay}, // a packet that only asks for ACKs is on its way
		{0, 5, coalesceDelay},
	} {
		now = now.Add(step.wait)
		require.Equal(t, step.want, w.delay(step.sent, now), "%+v", step)
	}
}

// TestNoCoalescingBeforeTheStart asks before there is a fast path, without a loop, and without a fast path.
func TestNoCoalescingBeforeTheStart(t *testing.T) {
	s := &Server{ready: make(chan struct{})}
	delay := (&sendWatch{server: s}).look
	require.Zero(t, delay())
	close(s.ready)
	require.Zero(t, delay())
	s.loop = new(media.Loop)
	s.processors = &processors{busy: time.Now().Add(time.Hour)}
	require.Zero(t, delay())
	require.NotZero(t, s.processors.at)
}
