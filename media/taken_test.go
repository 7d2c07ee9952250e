package media

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
)

// withTaker is a world whose forwarder may take ACKs.
func withTaker(t *testing.T, configure ...func(*worldConfig)) (*world, *fakeForwarder) {
	w, f := withForwarder(t, configure...)
	f.opened, f.adopted = nil, false
	require.False(t, f.taking, "at first quic-go's packets may be acknowledged")
	w.s.OwnInFlight(false)
	w.run()
	require.True(t, f.taking)
	return w, f
}

// takeAck makes the forwarder take an ACK of a range, in a packet with that number, which it does not hand over yet.
func (w *world) takeAck(f *fakeForwarder, number uint64, smallest, largest int64, more ...byte) {
	require.True(w.t, f.taking)
	ack := packet.AppendFrame(nil, packet.FrameAck, uint64(largest), 125, 0, uint64(largest-smallest))
	f.taken = append(f.taken, claim.TakenPacket{
		Number: number, Received: w.clock.t, ECN: 2, Frames: append(append(make([]byte, 5), ack...), more...),
	})
}

// elsewhere returns what quic-go is told, without what it does not own.
func (w *world) elsewhere() (*quic.ReceivedElsewhere, error) {
	r, err := w.s.ReceivedElsewhere()
	if r != nil {
		r = &quic.ReceivedElsewhere{Packets: append([]quic.AckRange{}, r.Packets...), ECT0: r.ECT0, ECT1: r.ECT1,
			ECNCE: r.ECNCE, Last: r.Last, RTT: r.RTT, AckDelay: r.AckDelay}
	}
	return r, err
}

func TestTakenAcks(t *testing.T) {
	w, f := withTaker(t)
	log := newTestLog(0, 10)
	log.Finish()
	_, results := w.stream(w.subscribe(), log)
	first := w.run()[0].number
	w.clock.advance(30 * ms)
	received := w.clock.Wall()
	w.takeAck(f, 70, first, first, make([]byte, 7)...)
	f.taken[0].ECN = 3
	w.takeAck(f, 71, first, first)
	w.takeAck(f, 73, first, first)
	w.clock.advance(5 * ms)
	require.Empty(t, results(), "nobody is awake")
	w.run()
	require.Equal(t, Delivered, results()[0].Outcome)
	require.EqualValues(t, 3, w.s.Stats().TakenAcks)
	require.Equal(t, 30*ms, w.s.Stats().SRTT, "the time of handing over does not matter")
	r, err := w.elsewhere()
	require.NoError(t, err)
	require.Equal(t, &quic.ReceivedElsewhere{
		Packets: []quic.AckRange{{Smallest: 70, Largest: 71}, {Smallest: 73, Largest: 73}}, ECT0: 2, ECNCE: 1,
		Last: received, RTT: 30 * ms, AckDelay: time.Millisecond,
	}, r)
	r, err = w.elsewhere()
	require.NoError(t, err)
	require.Nil(t, r, "all is told")
	w.takeAck(f, 74, first, first)
	r, err = w.elsewhere()
	require.NoError(t, err)
	require.Equal(t, []quic.AckRange{{Smallest: 74, Largest: 74}}, r.Packets, "quic-go hands over by itself")
	require.Zero(t, r.RTT)
}

// An ACK that was taken in time keeps packets from being considered lost, however late it is handed over.
func TestTakenAcksComeBeforeAlarms(t *testing.T) {
	w, f := withTaker(t)
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	first := w.run()[0].number
	w.clock.advance(10 * ms)
	w.takeAck(f, 70, first, first)
	w.clock.t = w.shard.alarms.next()
	require.NotEqual(t, clock.Never, w.clock.t)
	require.Empty(t, w.run(), "no probe")
	require.Zero(t, w.s.Stats().PTOs)
	require.Zero(t, w.s.Stats().InFlight)
}

// TestRefusals has everything that makes quic-go or the media sender need the next ACK.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *world, f *fakeForwarder) (over func()){
		"quic-go's packets": func(_ *testing.T, w *world, _ *fakeForwarder) func() {
			w.s.OwnInFlight(true)
			return func() { w.s.OwnInFlight(false) }
		},
		"key update": func(t *testing.T, w *world, f *fakeForwarder) func() {
			w.s.Keys(1, w.peer.suite, packet.Version1, testSecret, testSecret)
			w.s.OwnInFlight(true)
			w.s.OwnInFlight(false)
			w.s.Received(100, 0, time.Now())
			require.False(t, f.taking, "a packet of the old phase")
			return func() {
				w.s.Received(101, 1, time.Now())
				require.EqualValues(t, 1, f.generation)
			}
		},
		"key update is due": func(_ *testing.T, w *world, f *fakeForwarder) func() {
			w.s.keys.due.Store(true)
			w.s.shard.enqueue(w.s)
			w.run()
			return func() {
				w.s.Keys(1, w.peer.suite, packet.Version1, testSecret, testSecret)
				w.s.Received(101, 1, time.Now())
				w.s.shard.enqueue(w.s)
				w.run()
			}
		},
		"full window": func(_ *testing.T, w *world, _ *fakeForwarder) func() {
			w.stream(w.subscribe(), newTestLog(0, 100_000))
			w.run()
			return func() {
				for range 100 {
					w.ack(time10)
					w.run()
				}
			}
		},
		"gap": func(_ *testing.T, w *world, _ *fakeForwarder) func() {
			log := newTestLog(0, 10)
			w.stream(w.subscribe(), log)
			first := w.run()[0].number
			log.Append(testBytes(10, 10))
			second := w.run()[0].number
			w.clock.advance(10 * ms)
			w.ackNumbers(second)
			return func() { w.ackNumbers(first, second) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := withTaker(t, withController(&fixedController{window: 20_000}))
			over := test(t, w, f)
			require.False(t, f.taking)
			over()
			require.True(t, f.taking)
		})
	}
}

// A peer that breaks the rules in a packet that was taken is heard of with the next packet, which goes up.
func TestTakenAcksThatBreakRules(t *testing.T) {
	for name, test := range map[string]struct {
		take func(w *world, f *fakeForwarder)
		code quic.TransportErrorCode
	}{
		"skipped number": {func(w *world, f *fakeForwarder) {
			skipped := w.s.PeekPacketNumber()
			w.s.ledger.skipAt = uint64(skipped)
			w.stream(w.subscribe(), newTestLog(0, 10))
			w.run()
			w.takeAck(f, 70, skipped, skipped+1)
		}, quic.ProtocolViolation},
		"malformed": {func(w *world, f *fakeForwarder) {
			w.stream(w.subscribe(), newTestLog(0, 10))
			w.run()
			w.takeAck(f, 70, -1, 5)
		}, quic.FrameEncodingError},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := withTaker(t)
			test.take(w, f)
			w.run()
			require.False(t, f.taking)
			for range 2 {
				_, err := w.s.ReceivedElsewhere()
				var broken *quic.TransportError
				require.ErrorAs(t, err, &broken)
				require.Equal(t, test.code, broken.ErrorCode)
			}
		})
	}
}

// What is kept for quic-go is bounded, if every other packet goes up.
func TestTakenAcksAreBounded(t *testing.T) {
	w, f := withTaker(t)
	w.stream(w.subscribe(), newTestLog(0, 10))
	first := w.run()[0].number
	for n := range uint64(1000) {
		w.takeAck(f, 2*n, first, first)
	}
	w.run()
	r, err := w.elsewhere()
	require.NoError(t, err)
	require.Len(t, r.Packets, maxTakenSpans)
	require.Equal(t, quic.AckRange{Smallest: 1998, Largest: 1998}, r.Packets[maxTakenSpans-1])
	require.EqualValues(t, 1000, r.ECT0)
}

// Packets that were taken before the connection has ended change nothing.
func TestTakenAcksAfterTheEnd(t *testing.T) {
	w, f := withTaker(t)
	w.stream(w.subscribe(), newTestLog(0, 10))
	first := w.run()[0].number
	w.takeAck(f, 70, first, first)
	w.s.Closed(nil)
	w.run()
	require.Zero(t, w.s.Stats().TakenAcks)
	r, err := w.s.ReceivedElsewhere()
	require.NoError(t, err)
	require.Nil(t, r)
}

// Nothing is taken on connections that the forwarder does not know.
func TestNothingIsTakenWithOtherSuites(t *testing.T) {
	f := &fakeForwarder{t: t}
	w := newWorld(t, func(c *worldConfig) { c.loop.Memory, c.suite = f, tls.TLS_AES_128_GCM_SHA256 })
	w.s.OwnInFlight(false)
	w.run()
	require.False(t, f.taking)
}
