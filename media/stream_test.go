package media

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStreamIsDelivered(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(100, 5000)
	_, results := w.stream(w.subscribe(), log)
	require.Len(t, w.run(), 5)
	log.Append(content(5100, 10))
	log.Finish()
	sent := w.run()
	require.Len(t, sent, 1)
	require.True(t, sent[0].fin)
	require.Empty(t, *results)
	w.ack(10 * time.Millisecond)
	require.Equal(t, []Result{{Outcome: Delivered, ID: 3, Size: 5016}}, *results)
	require.Equal(t, append([]byte("prefix"), content(100, 5010)...), w.peer.bytes(3))
	require.Zero(t, w.s.Stats().InFlight)
	require.Zero(t, w.s.Stats().Open)
	require.False(t, log.Pinned())
}
