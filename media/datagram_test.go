package media

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDatagram(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.subscribe().SendDatagram(Datagram{Header: []byte("header "), Payload: []byte("payload")}))
	sent := w.run()
	require.Len(t, sent, 1)
	require.Equal(t, "header payload", string(sent[0].data))
	require.Equal(t, 1+8+4+1+14+16, sent[0].size)
	require.Equal(t, uint64(1), w.s.Stats().Datagrams)
	w.ack(10 * ms)
	require.Zero(t, w.s.Stats().InFlight)
}

func TestDatagramSizes(t *testing.T) {
	const room = testMTU - 1 - 8 - 4 - 16 - 1
	for _, v := range []struct {
		name  string
		limit int64
		size  int
		want  Reason
	}{
		{"fits the packet", 65535, room, none},
		{"too large for the packet", 65535, room + 1, DatagramTooLarge},
		{"fits the peer", 100, 99, none},
		{"too large for the peer", 100, 100, DatagramTooLarge},
		{"not supported by the peer", 0, 1, DatagramUnsupported},
	} {
		t.Run(v.name, func(t *testing.T) {
			w := newWorld(t, func(c *worldConfig) { c.params.MaxDatagramFrameSize = v.limit })
			require.NoError(t, w.subscribe().SendDatagram(Datagram{Payload: make([]byte, v.size)}))
			sent := w.run()
			if v.want == none {
				require.Len(t, sent, 1)
				return
			}
			require.Empty(t, sent)
			var want [numReasons]uint64
			want[v.want] = 1
			require.Equal(t, want, w.s.Stats().Reasons)
			require.Zero(t, len(w.s.ready.tiers))
		})
	}
}

// The smaller of both timeouts counts for datagrams (draft §8).
func TestDatagramTimeout(t *testing.T) {
	for _, v := range []struct {
		object, subgroup, age time.Duration
		sent                  bool
	}{
		{0, 0, time.Hour, true},
		{100 * ms, 0, 100 * ms, true},
		{100 * ms, 0, 101 * ms, false},
		{0, 100 * ms, 101 * ms, false},
		{100 * ms, 50 * ms, 60 * ms, false},
		{50 * ms, 100 * ms, 60 * ms, false},
	} {
		w := newWorld(t)
		sub := w.subscribe(func(c *SubscriptionConfig) { c.Timeouts = Timeouts{v.object, v.subgroup} })
		require.NoError(t, sub.SendDatagram(Datagram{Payload: []byte("x"), Received: w.clock.Wall().Add(-v.age)}))
		require.Equal(t, v.sent, len(w.run()) == 1, "%+v", v)
		require.Equal(t, !v.sent, w.s.Stats().Reasons[DatagramLate] == 1)
	}
}

func TestDatagramQueue(t *testing.T) {
	f := &fixedController{window: 2 * testMTU}
	w := newWorld(t, withController(f))
	w.stream(w.subscribe(func(c *SubscriptionConfig) { c.Priority = 0 }), newTestLog(0, 10_000))
	w.run()
	sub := w.subscribe()
	for i := range maxDatagrams + 10 {
		w.clock.advance(time.Microsecond)
		require.NoError(t, sub.SendDatagram(Datagram{Payload: fmt.Appendf(nil, "%d", i), Object: uint64(i)}))
	}
	require.Equal(t, uint64(10), w.s.Stats().Reasons[DatagramQueueFull])
	f.window = 1 << 20
	w.ack(10 * ms)
	w.run()
	require.Len(t, w.peer.datagrams, maxDatagrams)
	require.Equal(t, "10", string(w.peer.datagrams[0]), "the oldest go")
	require.Zero(t, sub.datagrams)
}

func TestDatagramsBeforeTheHandshake(t *testing.T) {
	w := newWorld(t)
	s := w.loop.NewSender(SenderConfig{}).Hooks()
	sub := s.NewSubscription(SubscriptionConfig{})
	require.NoError(t, sub.SendDatagram(Datagram{Payload: []byte("x")}))
	require.Empty(t, w.run())
	require.Equal(t, uint64(1), s.Stats().Reasons[BlockedPath])
	s.Closed(nil)
	require.ErrorIs(t, sub.SendDatagram(Datagram{}), ErrClosed)
	require.Zero(t, sub.datagrams)
}
