package media

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// limitedSession has the peer of a world limit its session. It notes what the peer is told.
type limitedSession struct {
	w    *world
	told []string
}

func (l *limitedSession) limit(streams, data uint64) {
	l.w.s.LimitSession(streams, data, len("prefix"), func(streams bool, limit uint64) {
		l.told = append(l.told, fmt.Sprint(streams, " ", limit))
	})
}

// payload returns how many bytes of streams have been sent, without headers.
func payload(packets []*wirePacket) (n int) {
	for _, p := range packets {
		n += len(p.data)
		if len(p.data) > 0 && p.offset == 0 {
			n -= len("prefix")
		}
	}
	return n
}

func TestSessionData(t *testing.T) {
	w := newWorld(t)
	w.s.TakeData(500, false) // HTTP/3, as all below that is not given to TakeSessionData
	l := &limitedSession{w: w}
	l.limit(100, 200)
	log := newTestLog(0, 1000)
	_, results := w.stream(w.subscribe(), log)
	require.Equal(t, 200-6, payload(w.run()), "the header of an open stream may not have been sent")
	require.Equal(t, []string{"false 200"}, l.told)
	require.Empty(t, w.run())
	require.Equal(t, int64(300), w.s.TakeData(300, false), "HTTP/3 has the limit of the connection")
	w.s.TakeData(0, false)

	l.limit(100, 1100)
	require.Equal(t, 806, payload(w.run()))
	log.Finish()
	w.run()
	w.ack(0)
	require.Len(t, results(), 1)
	w.stream(w.subscribe(), newTestLog(0, 1000))
	require.Equal(t, 100-6, payload(w.run()), "the header of a stream that has ended does not count")
	require.Equal(t, []string{"false 200", "false 1100"}, l.told)

	require.Equal(t, int64(50), w.s.TakeData(50, false))
	require.Zero(t, w.s.TakeSessionData(50), "quic-go has the same limit")
	w.s.ReturnData(50)
	l.limit(100, 1150)
	require.Equal(t, 50, payload(w.run()))
	l.limit(100, 1200)
	require.Equal(t, int64(80), w.s.TakeData(80, false))
	require.Equal(t, int64(50), w.s.TakeSessionData(80))
	w.s.ReturnData(30)
	require.Empty(t, w.run())
	require.Equal(t, uint64(0), w.s.Stats().Reasons[BlockedStreams])
}

// A limit of the connection counts beside the session's.
func TestSessionDataBelowConnection(t *testing.T) {
	w := newWorld(t, withParams(func(c *worldConfig) { c.params.MaxData = 800 }))
	l := &limitedSession{w: w}
	l.limit(100, 1000)
	w.stream(w.subscribe(), newTestLog(0, 2000))
	sent := w.run()
	require.Equal(t, 700-6, payload(sent), "an eighth is for control messages")
	require.Equal(t, []uint64{800}, sent[len(sent)-1].fields, "DATA_BLOCKED")
	require.Empty(t, l.told)
	w.s.MaxData(5000)
	require.Equal(t, 300, payload(w.run()))
	require.Equal(t, []string{"false 1000"}, l.told)
	require.Equal(t, int64(4000), w.s.TakeData(4000, true))
	require.Zero(t, w.s.TakeData(1, true))
}

func TestSessionStreams(t *testing.T) {
	w := newWorld(t, withParams(func(c *worldConfig) { c.params.MaxStreamsUni = 4 }))
	w.s.NextUniStream() // of HTTP/3
	l := &limitedSession{w: w}
	l.limit(1, 1<<40)
	sub := w.subscribe()
	for range 4 {
		w.stream(sub, newTestLog(0, 10))
	}
	require.Len(t, w.run(), 1)
	require.Equal(t, []string{"true 1"}, l.told)
	_, ok := w.s.NextUniStream()
	require.False(t, ok, "quic-go has the same limit")
	l.limit(2, 1<<40)
	require.Len(t, w.run(), 1)
	require.Equal(t, []string{"true 1", "true 2"}, l.told)
	l.limit(9, 1<<40)
	sent := w.run()
	require.Len(t, sent, 2)
	require.Equal(t, []uint64{4}, sent[1].fields, "STREAMS_BLOCKED: the connection's limit")
	w.s.MaxStreams(9)
	require.Len(t, w.run(), 1)
	require.Len(t, l.told, 2)
}
