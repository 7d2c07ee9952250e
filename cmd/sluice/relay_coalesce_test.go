package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPatience has the process send media now and then.
func TestPatience(t *testing.T) {
	var p patience
	now := time.Now()
	for _, step := range []struct {
		wait time.Duration
		sent uint64
		want time.Duration
	}{
		{0, 0, coalescing},
		{0, 3, 0},
		{hurry - 1, 3, 0},
		{1, 3, coalescing},
		{time.Hour, 3, coalescing},
		{0, 4, 0},
		{hurry - 1, 5, 0},
		{hurry - 1, 5, 0},
		{1, 5, coalescing},
	} {
		now = now.Add(step.wait)
		require.Equal(t, step.want, p.after(step.sent, now), "%+v", step)
	}
}

// TestNoPatienceBeforeTheStart asks before there is anything that could forward.
func TestNoPatienceBeforeTheStart(t *testing.T) {
	s := &relayServer{ready: make(chan struct{})}
	delay := s.newCoalescing()
	require.Zero(t, delay())
	close(s.ready) // without a fast path
	require.Zero(t, delay())
}
