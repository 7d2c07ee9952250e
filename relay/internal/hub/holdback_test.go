package hub

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/track"
)

func TestHoldBackIsLimited(t *testing.T) {
	b := holdBack{active: true}
	sent := 0
	for range maxHeld {
		b.do(func() { sent++ }, nil, 0)
	}
	require.Zero(t, sent)
	b.do(func() { sent++ }, nil, 0)
	require.Equal(t, maxHeld+1, sent)
}

func TestHoldBackPinsSegments(t *testing.T) {
	for name, end := range map[string]func(*holdBack){"release": (*holdBack).release, "discard": (*holdBack).discard} {
		seg := &track.Segment{Log: track.NewLog(0, nil)}
		b := holdBack{active: true}
		b.do(func() {}, seg, 0)
		seg.Log.Finish()
		require.True(t, seg.Log.Pinned(), name)
		end(&b)
		require.False(t, seg.Log.Pinned(), name)
	}
}
