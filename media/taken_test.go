package media

import (
	"crypto/tls"
	"slices"
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

// take makes the forwarder take a packet with other frames.
func (w *world) take(f *fakeForwarder, number uint64, frames ...[]byte) {
	require.True(w.t, f.taking)
	f.taken = append(f.taken, claim.TakenPacket{
		Number: number, Received: w.clock.t, ECN: 2, Frames: slices.Concat(frames...),
	})
}

// elsewhere returns what quic-go is told, without what it does not own.
func (w *world) elsewhere() (*quic.ReceivedElsewhere, error) {
	r, err := w.s.ReceivedElsewhere()
	if r != nil {
		r = &quic.ReceivedElsewhere{Packets: append([]quic.AckRange{}, r.Packets...), ECT0: r.ECT0, ECT1: r.ECT1,
			ECNCE: r.ECNCE, Last: r.Last, RTT: r.RTT, AckDelay: r.AckDelay,
			Sent: r.Sent, MaxData: r.MaxData, MaxStreams: r.MaxStreams, MaxStreamData: r.MaxStreamData}
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
			w.s.Received(100, 100, 0, 0)
			require.False(t, f.taking, "a packet of the old phase")
			return func() {
				w.s.Received(101, 101, 1, 0)
				require.EqualValues(t, 1, f.generation)
			}
		},
		"key update is due": func(_ *testing.T, w *world, f *fakeForwarder) func() {
			w.s.keys.due.Store(true)
			w.s.shard.enqueue(w.s)
			w.run()
			return func() {
				w.s.Keys(1, w.peer.suite, packet.Version1, testSecret, testSecret)
				w.s.Received(101, 101, 1, 0)
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

// A peer that breaks the rules in a packet that was taken is turned out: quic-go is woken.
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
		"malformed limit": {func(w *world, f *fakeForwarder) {
			w.take(f, 70, packet.AppendFrame(nil, packet.FrameMaxStreamsUni, 1<<60+1))
		}, quic.FrameEncodingError},
		"limits of too many streams": {func(w *world, f *fakeForwarder) {
			for n := range uint64(maxOtherStreams + 1) {
				w.take(f, n, packet.AppendFrame(nil, packet.FrameMaxStreamData, 3+4*n, 1))
			}
		}, quic.InternalError},
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
			require.NotZero(t, w.woken)
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
	require.Len(t, r.Packets, maxReceivedSpans)
	require.Equal(t, quic.AckRange{Smallest: 1998, Largest: 1998}, r.Packets[maxReceivedSpans-1])
	require.EqualValues(t, 1000, r.ECT0)
}

// A stream goes on when its limit was raised by a packet that was taken. The packet is acknowledged with all others
// that have come, and quic-go sleeps.
func TestTakenLimits(t *testing.T) {
	for name, test := range map[string]struct {
		params func(*quic.PeerParameters)
		frame  []byte
		want   quic.ReceivedElsewhere
	}{
		"stream": {func(p *quic.PeerParameters) { p.MaxStreamDataUni = 100 },
			packet.AppendFrame(nil, packet.FrameMaxStreamData, 3, 300), quic.ReceivedElsewhere{}},
		"connection": {func(p *quic.PeerParameters) { p.MaxData = 100 },
			packet.AppendFrame(nil, packet.FrameMaxData, 400), quic.ReceivedElsewhere{MaxData: 400}},
		"streams": {func(p *quic.PeerParameters) { p.MaxStreamsUni = 0 },
			packet.AppendFrame(nil, packet.FrameMaxStreamsUni, 1), quic.ReceivedElsewhere{MaxStreams: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := withTaker(t, func(c *worldConfig) { test.params(&c.params) })
			w.s.Received(40, 40, 0, 3)
			w.s.Received(43, 43, 0, 2)
			w.stream(w.subscribe(), newTestLog(0, 200))
			w.run()
			require.NotZero(t, w.s.credit.parked)
			before := w.s.Stats().InFlight
			w.take(f, 44, test.frame, []byte{0, 0})
			w.clock.advance(8 * ms)
			sent := w.run()
			require.Zero(t, w.s.credit.parked)
			require.Len(t, sent, 2)
			require.EqualValues(t, packet.FrameAckECN, sent[0].frame)
			require.Equal(t, quic.AckInfo{
				Ranges: []quic.AckRange{{Smallest: 43, Largest: 44}, {Smallest: 40, Largest: 40}}, Delay: 8 * ms,
				ECT0: 2, ECNCE: 1,
			}, sent[0].ack)
			require.EqualValues(t, packet.FrameStream, sent[1].frame&^7)
			require.Zero(t, w.woken, "quic-go sleeps")
			require.EqualValues(t, 1, w.s.Stats().SentAcks)
			require.Equal(t, before+sent[1].size, w.s.Stats().InFlight, "the ACK does not count")
			r, err := w.elsewhere()
			require.NoError(t, err)
			require.Equal(t, test.want.MaxData, r.MaxData)
			require.Equal(t, test.want.MaxStreams, r.MaxStreams)
			require.Empty(t, r.MaxStreamData)
			require.Empty(t, w.run(), "it is acknowledged once")
		})
	}
}

// An ACK is lost, so the peer asks again; the next ACK has all packets.
func TestLostAckOfTakenPackets(t *testing.T) {
	w, f := withTaker(t)
	for n := range uint64(3) {
		w.take(f, 70+n, []byte{packet.FramePing})
		sent := w.run()
		require.Len(t, sent, 1)
		require.Equal(t, []quic.AckRange{{Smallest: 70, Largest: 70 + int64(n)}}, sent[0].ack.Ranges)
		w.clock.advance(time.Second)
		require.Empty(t, w.run(), "nothing is repeated")
	}
}

// Packets are acknowledged with the keys of their time, also after a key update, and without keys not at all.
func TestAcksOfTakenPacketsAndKeys(t *testing.T) {
	w, f := withTaker(t)
	secret := []byte("another secret of thirty-two b..")
	w.peer.opener.Update(secret)
	w.s.Keys(1, w.peer.suite, packet.Version1, testSecret, secret)
	w.s.Received(69, 69, 1, 0)
	w.take(f, 70, []byte{packet.FramePing})
	w.elsewhere()
	sent := w.run()
	require.Len(t, sent, 1)
	require.EqualValues(t, 1, sent[0].phase)
	r, err := w.elsewhere()
	require.NoError(t, err)
	require.Equal(t, sent[0].number, r.Sent, "quic-go knows that the peer may update its keys")
	secret = []byte("the third secret of thirty-two..")
	w.peer.opener.Update(secret)
	w.s.Keys(2, w.peer.suite, packet.Version1, testSecret, secret)
	w.s.Received(70, 71, 0, 0)
	w.s.taken.news.Store(true)
	r, err = w.elsewhere()
	require.NoError(t, err)
	require.Zero(t, r.Sent, "nothing was acknowledged with the new key")
	w.take(f, 72, []byte{packet.FramePing})
	w.s.Closed(nil)
	require.Empty(t, w.run())
}

// quic-go is woken if it may wait for a limit.
func TestTakenLimitsWakeQuicGo(t *testing.T) {
	for name, test := range map[string]struct {
		wait  func(w *world)
		frame []byte
		want  quic.ReceivedElsewhere
	}{
		"credit": {func(w *world) {
			require.EqualValues(w.t, 100, w.s.TakeData(200, false))
		}, packet.AppendFrame(nil, packet.FrameMaxData, 400), quic.ReceivedElsewhere{MaxData: 400}},
		"no credit": {func(w *world) {
			w.s.TakeData(100, true)
			require.Zero(w.t, w.s.DataAvailable())
		}, packet.AppendFrame(nil, packet.FrameMaxData, 400), quic.ReceivedElsewhere{MaxData: 400}},
		"stream id": {func(w *world) {
			_, ok := w.s.NextUniStream()
			require.True(w.t, ok)
			_, ok = w.s.NextUniStream()
			require.False(w.t, ok)
		}, packet.AppendFrame(nil, packet.FrameMaxStreamsUni, 2), quic.ReceivedElsewhere{MaxStreams: 2}},
		"stream": {func(w *world) {
			id, ok := w.s.NextUniStream()
			require.True(w.t, ok)
			require.EqualValues(w.t, 3, id)
		}, packet.AppendFrame(
			packet.AppendFrame(nil, packet.FrameMaxStreamData, 3, 500), packet.FrameMaxStreamData, 3, 400),
			quic.ReceivedElsewhere{MaxStreamData: map[int64]int64{3: 500}}},
		"unknown stream": {func(*world) {}, packet.AppendFrame(nil, packet.FrameMaxStreamData, 63, 500),
			quic.ReceivedElsewhere{MaxStreamData: map[int64]int64{63: 500}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := withTaker(t, func(c *worldConfig) { c.params.MaxData, c.params.MaxStreamsUni = 100, 1 })
			test.wait(w)
			w.take(f, 70, test.frame)
			require.Zero(t, w.woken)
			w.run()
			require.NotZero(t, w.woken)
			r, err := w.elsewhere()
			require.NoError(t, err)
			require.Equal(t, test.want.MaxData, r.MaxData)
			require.Equal(t, test.want.MaxStreams, r.MaxStreams)
			require.Equal(t, test.want.MaxStreamData, r.MaxStreamData)
			woken := w.woken
			w.take(f, 71, packet.AppendFrame(nil, packet.FrameMaxData, 1000))
			w.run()
			require.Equal(t, woken, w.woken, "it does not wait any more")
			r, err = w.elsewhere()
			require.NoError(t, err)
			require.Empty(t, r.MaxStreamData, "all is told once")
		})
	}
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
