package media

import (
	"sluice/internal/packet"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func withParams(f func(c *worldConfig)) func(*worldConfig) { return f }

func TestStreamFlowControl(t *testing.T) {
	w := newWorld(t, withParams(func(c *worldConfig) { c.params.MaxStreamDataUni = 100 }))
	log := newTestLog(0, 200)
	w.stream(w.subscribe(), log)
	sent := w.run()
	require.Len(t, sent, 2)
	require.Len(t, sent[0].data, 100)
	require.Equal(t, byte(packet.FrameStreamDataBlocked), sent[1].frame)
	require.Equal(t, []uint64{3, 100}, sent[1].fields)
	log.Append(testBytes(200, 10))
	require.Empty(t, w.run(), "the peer knows")

	w.s.MaxStreamData(3, 150)
	w.s.MaxStreamData(3, 120) // limits do not fall
	w.s.MaxStreamData(7, 1000)
	sent = w.run()
	require.Len(t, sent[0].data, 50)
	require.Equal(t, []uint64{3, 150}, sent[1].fields)
	w.s.MaxStreamData(3, 1000)
	log.Finish()
	sent = w.run()
	require.True(t, sent[len(sent)-1].fin)
	require.Equal(t, append([]byte("prefix"), testBytes(0, 210)...), w.peer.bytes(3))
	require.Equal(t, uint64(2), w.s.Stats().Reasons[BlockedStream])
}

// A lost STREAM_DATA_BLOCKED is repeated only while the stream is still blocked at that limit.
func TestLostBlockedFrames(t *testing.T) {
	for _, raised := range []bool{false, true} {
		w := newWorld(t, withParams(func(c *worldConfig) {
			c.params.MaxStreamDataUni, c.params.MaxData, c.params.MaxStreamsUni = 100, 156, 2
		}))
		sub := w.subscribe()
		for i := range 3 {
			w.stream(sub, newTestLog(int64(i)*1000, 200), func(c *StreamConfig) { c.Group = uint64(i) })
		}
		var lost []int64
		var frames []byte
		for _, p := range w.run() {
			if p.frame&^7 != packet.FrameStream {
				lost, frames = append(lost, p.number), append(frames, p.frame)
			}
		}
		require.ElementsMatch(t, []byte{packet.FrameStreamDataBlocked, packet.FrameDataBlocked}, frames)
		if raised {
			w.s.MaxStreamData(3, 200)
			w.s.MaxData(300)
		}
		w.peer.forget(lost...)
		again := map[byte][]uint64{}
		for range 10 {
			for _, p := range w.sleep(time.Hour) {
				if p.frame&^7 != packet.FrameStream && p.frame != packet.FramePing {
					again[p.frame] = append(again[p.frame], p.fields[len(p.fields)-1])
				}
			}
			w.ack(10 * ms)
		}
		if raised {
			require.NotContains(t, again[packet.FrameDataBlocked], uint64(156))
			require.NotContains(t, again[packet.FrameStreamDataBlocked], uint64(100))
		} else {
			require.Contains(t, again[packet.FrameDataBlocked], uint64(156))
			require.Contains(t, again[packet.FrameStreamDataBlocked], uint64(100))
		}
	}
}

func TestConnectionFlowControl(t *testing.T) {
	w := newWorld(t, withParams(func(c *worldConfig) { c.params.MaxData = 800 }))
	a, b := newTestLog(0, 500), newTestLog(1000, 500)
	a.Finish()
	b.Finish()
	sub := w.subscribe()
	w.stream(sub, a)
	w.stream(sub, b, func(c *StreamConfig) { c.Group = 1 })
	sent := w.run()
	require.Equal(t, byte(packet.FrameDataBlocked), sent[len(sent)-1].frame)
	require.Equal(t, []uint64{800}, sent[len(sent)-1].fields)
	require.Equal(t, uint64(700), w.s.state.DataSent.Load(), "an eighth is quic-go's")
	require.Equal(t, int64(100), w.s.DataAvailable())
	require.Equal(t, int64(60), w.s.TakeData(60, true))
	require.Zero(t, w.s.TakeData(60, true))
	require.Equal(t, int64(40), w.s.TakeData(60, false))
	w.s.MaxData(700)
	require.Empty(t, w.run(), "limits do not fall")
	w.s.MaxData(100_000)
	w.run()
	require.Len(t, w.peer.bytes(3), 506)
	require.Len(t, w.peer.bytes(7), 506)
	require.False(t, w.s.credit.wanted.Load())
}

// Both ends of a connection can send.
func TestClientStreamIDs(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.sender.Client = true })
	w.stream(w.subscribe(), newTestLog(0, 10))
	require.Equal(t, int64(2), w.run()[0].id)
	require.Equal(t, int64(6), w.s.PeekUniStream())
}
