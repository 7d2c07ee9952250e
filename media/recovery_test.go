package media

import (
	"errors"
	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// burst sends n packets of one stream and returns their numbers. One more packet gave an RTT sample of 100 ms before.
func burstOf(t *testing.T, n int, configure ...func(*worldConfig)) (*world, *fixedController, []int64) {
	t.Helper()
	f := &fixedController{window: 1 << 20}
	w := newWorld(t, append(configure, withController(f))...)
	w.s.ledger.skipAt = 1 << 50
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	w.run()
	w.s.ledger.skipAt = 1 << 50
	w.ack(100 * ms)
	log.Append(testBytes(10, n*1200))
	var numbers []int64
	for _, p := range w.run() {
		numbers = append(numbers, p.number)
	}
	return w, f, numbers[:n]
}

func TestPacketThreshold(t *testing.T) {
	w, f, n := burstOf(t, 10)
	before := w.s.Stats().InFlight
	w.clock.advance(100 * ms)
	w.ackNumbers(n[1])
	require.Empty(t, f.lost)
	w.ackNumbers(n[2])
	require.Empty(t, f.lost, "two packets later")
	w.ackNumbers(n[3])
	require.Len(t, f.lost, 1, "three packets later")
	require.Equal(t, 1, f.lost[0].Packets)
	sent := w.run()
	require.Len(t, sent, 1)
	require.Equal(t, int64(16), sent[0].offset)
	require.Equal(t, uint64(1), w.s.Stats().LostPackets)
	require.Equal(t, uint64(1), w.s.Stats().Retransmissions)
	require.Equal(t, before-3*testMTU, w.s.Stats().InFlight)
}

func TestTimeThreshold(t *testing.T) {
	w, f, n := burstOf(t, 3)
	w.clock.advance(100 * ms)
	w.ackNumbers(n[1])
	require.Empty(t, f.lost)
	w.run()
	at := w.clock.t
	for len(f.lost) == 0 {
		w.sleep(time.Second)
	}
	// 9/8 of the RTT after it was sent
	require.Equal(t, 12500*time.Microsecond, w.clock.t.Sub(at))
	require.Equal(t, 1, f.lost[0].Packets, "later packets are not considered")
}

func TestProbeTimeout(t *testing.T) {
	w, f, _ := burstOf(t, 5)
	sent := w.clock.t
	pto := 100*ms + 4*50*ms + 25*ms
	before := w.s.Stats().InFlight
	for i := range 4 {
		var probes []*wirePacket
		for len(probes) == 0 {
			probes = w.sleep(time.Hour)
		}
		require.Equal(t, sent.Add(pto<<i).Ceil(tick), w.clock.t, "backoff")
		sent = w.clock.t
		require.GreaterOrEqual(t, len(probes), 2)
		require.Equal(t, int64(16), probes[0].offset, "the oldest data, once more")
		require.Equal(t, i > 0, probes[0].size <= baseMTU, "smaller packets if no probe was answered")
	}
	require.Empty(t, f.lost, "a PTO is no loss")
	require.Greater(t, w.s.Stats().InFlight, before)
	require.Equal(t, uint64(4), w.s.Stats().PTOs)

	w.ackNumbers(w.s.NextPacketNumber())
	require.Zero(t, w.s.recovery.ptoCount, "an acknowledgment ends the backoff, also of a packet of quic-go's")
}

// Packets that were lost long ago are not looked for in every ACK frame.
func TestLostPacketsAreForgotten(t *testing.T) {
	w, _, n := burstOf(t, 10)
	w.clock.advance(100 * ms)
	w.ackNumbers(n[9])
	require.NotEmpty(t, w.s.recovery.lostRecently)
	for range 10 {
		w.run()
		w.ack(100 * ms)
		w.sleep(time.Second)
	}
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	w.clock.advance(time.Minute)
	sent := w.run()
	w.ackNumbers(sent[0].number)
	require.Empty(t, w.s.recovery.lostRecently)
}

func TestNoTimerWithoutOutstandingPackets(t *testing.T) {
	w, _, _ := burstOf(t, 5)
	w.run()
	require.NotEqual(t, clock.Never, w.shard.alarms.next())
	w.ack(50 * ms)
	w.sleep(time.Hour)
	require.Equal(t, clock.Never, w.shard.alarms.next())
}

func TestSpuriousLoss(t *testing.T) {
	w, f, n := burstOf(t, 10)
	w.clock.advance(100 * ms)
	w.ackNumbers(n[3], n[4], n[5])
	require.Equal(t, 3, f.lost[0].Packets)
	w.ackNumbers(n[0], n[1], n[2], n[3], n[4], n[5])
	require.Len(t, f.spurious, 3)
	require.Equal(t, uint64(3), w.s.Stats().SpuriousPackets)
	require.Empty(t, w.run(), "packets that have arrived are not sent again")
	require.Equal(t, uint64(6), w.s.recovery.reordering, "more reordering is expected from here on")
	w.ackNumbers(n[0], n[1], n[2], n[3], n[4], n[5])
	require.Len(t, f.spurious, 3, "once each")
}

// RFC 9002 §7.6: two losses as far apart as three PTOs, and nothing acknowledged in between.
func TestPersistentCongestion(t *testing.T) {
	for _, v := range []struct {
		name       string
		apart      time.Duration
		middle     bool // a packet in between is acknowledged
		persistent bool
	}{
		{"long enough", 1000 * ms, false, true},
		{"too short", 800 * ms, false, false},
		{"interrupted", 1000 * ms, true, false},
	} {
		t.Run(v.name, func(t *testing.T) {
			f := &fixedController{window: 1 << 20}
			w := newWorld(t, withController(f))
			log := newTestLog(0, 10)
			w.stream(w.subscribe(), log)
			send := func() int64 {
				log.Append(testBytes(log.End(), 10))
				sent := w.run()
				return sent[len(sent)-1].number
			}
			first := w.run()[0].number
			w.clock.advance(100 * ms)
			w.ackNumbers(first)
			w.clock.advance(time.Second) // the first sample is older than the losses
			send()
			w.clock.t = w.clock.t.Add(v.apart / 2)
			middle := send()
			w.clock.t = w.clock.t.Add(v.apart / 2)
			send()
			for range 3 {
				send()
			}
			last := send()
			w.clock.advance(100 * ms) // three PTOs are 825 ms then
			if v.middle {
				w.ackNumbers(middle, last)
			} else {
				w.ackNumbers(last)
			}
			require.NotEmpty(t, f.lost)
			require.Equal(t, v.persistent, f.lost[len(f.lost)-1].Persistent)
		})
	}
}

// A peer that acknowledges a packet that was never sent ends the connection (RFC 9000 §21.4).
func TestOptimisticAck(t *testing.T) {
	w := newWorld(t)
	w.s.ledger.begin(w.clock.t) // makes the ledger
	w.s.state.Abort()
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	sent := w.run()[0].number
	w.s.ledger.skipAt = uint64(sent) + 1
	log.Append(testBytes(10, 10))
	next := w.run()[0].number
	require.Equal(t, sent+2, next)
	_, err := w.ackRanges(quic.AckRange{Smallest: next, Largest: next}, quic.AckRange{Smallest: sent, Largest: sent})
	require.NoError(t, err)

	w.s.ledger.skipAt = uint64(next) + 1
	log.Append(testBytes(20, 10))
	last := w.run()[0].number
	_, err = w.ackRanges(quic.AckRange{Smallest: sent, Largest: last})
	var te *quic.TransportError
	require.True(t, errors.As(err, &te))
	require.Equal(t, quic.ProtocolViolation, te.ErrorCode)
}

// A packet that was never sent is acknowledged when it is already considered lost.
func TestLateOptimisticAck(t *testing.T) {
	w, _, n := burstOf(t, 5)
	w.ackNumbers(n...)
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	skipped := w.s.PeekPacketNumber()
	w.s.ledger.skipAt = uint64(skipped)
	last := skipped
	for range 5 {
		for _, p := range w.run() {
			last = p.number
		}
		log.Append(testBytes(log.End(), 10))
	}
	w.clock.advance(50 * ms)
	w.ackNumbers(last - 1)
	_, err := w.ackRanges(quic.AckRange{Smallest: skipped, Largest: last})
	var te *quic.TransportError
	require.ErrorAs(t, err, &te)
	require.Equal(t, quic.ProtocolViolation, te.ErrorCode)
}

func TestPathChange(t *testing.T) {
	w, f, n := burstOf(t, 10)
	for w.s.recovery.ptoCount < 2 {
		w.sleep(time.Hour)
	}
	w.path("192.0.2.1:5555", testMTU)
	require.Zero(t, f.resets, "another port is another binding of the same NAT")
	require.NotZero(t, w.s.Stats().SRTT)
	require.Zero(t, w.s.recovery.ptoCount, "the path is there again")

	w.path("198.51.100.7:5555", testMTU)
	require.Equal(t, 1, f.resets)
	require.Zero(t, w.s.Stats().InFlight, "the new path is empty")
	require.Zero(t, w.s.Stats().SRTT)
	before := len(f.acked)
	w.clock.advance(50 * ms)
	rtt, _ := w.ackRanges(quic.AckRange{Smallest: n[4], Largest: n[9]})
	require.Zero(t, rtt)
	require.Len(t, f.acked, before, "packets of the old path are not reported")
	require.Empty(t, f.lost)
	sent := w.run()
	require.Len(t, sent, 4, "packets that were lost on the old path are sent again")
	require.Equal(t, "198.51.100.7:5555", sent[0].remote.String())
	for range 10 {
		w.ack(50 * ms)
		w.sleep(time.Second)
	}
	require.Zero(t, w.s.Stats().InFlight)
}

// The peer's max_udp_payload_size limits packets.
func TestPeerPayloadLimit(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.params.MaxUDPPayloadSize = 1210 })
	w.stream(w.subscribe(), newTestLog(0, 5000))
	require.Equal(t, 1210, w.run()[0].size)
}

// A path that no longer carries the packets it did.
func TestBlackHole(t *testing.T) {
	w, _, _ := burstOf(t, 20)
	for range 10 {
		for _, p := range w.sleep(time.Hour) { // probes
			if p.size <= baseMTU {
				w.clock.advance(10 * ms)
				w.ackNumbers(p.number)
			}
		}
	}
	require.Equal(t, uint32(baseMTU), w.s.state.MTU.Load())
	require.Equal(t, uint64(1), w.s.Stats().Reasons[MTUBlackHole])
	w.path("192.0.2.1:4433", testMTU)
	require.Equal(t, uint32(testMTU), w.s.state.MTU.Load())
}

// Repeated ranges of ACK frames are skipped: only numbers from the first outstanding one on are looked at.
func TestAckCost(t *testing.T) {
	w := newWorld(t, withController(&fixedController{window: 1 << 20}))
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	for range 200 {
		log.Append(testBytes(log.End(), 1000))
		w.run()
		w.ack(ms)
		require.GreaterOrEqual(t, w.s.ledger.low+maxPacketThreshold, w.s.state.NextPN.Load()&claim.NumberMask)
	}
	require.Equal(t, firstLedger, w.s.Stats().Ledger)
}

func TestAppLimited(t *testing.T) {
	f := &fixedController{window: 4 * testMTU}
	w := newWorld(t, withController(f))
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	w.run()
	w.ack(100 * ms)
	require.True(t, f.acked[0].AppLimited)
	require.Zero(t, f.acked[0].LimitedSince)
	log.Append(testBytes(10, 10*testMTU))
	blocked := w.clock.Now()
	w.run()
	w.ack(100 * ms)
	require.False(t, f.acked[1].AppLimited)
	require.Equal(t, blocked, f.acked[1].LimitedSince)
	require.Equal(t, blocked, f.acked[1].First)
	w.run()
	w.ack(100 * ms)
	require.Equal(t, blocked, f.acked[2].LimitedSince, "there was data all the time")
	for range 10 {
		w.run()
		w.ack(100 * ms)
	}
	log.Append(testBytes(log.End(), 10))
	w.run()
	w.ack(100 * ms)
	last := f.acked[len(f.acked)-1]
	require.True(t, last.AppLimited)
	require.Zero(t, last.LimitedSince)
}

// A controller's mistakes are kept within bounds.
func TestWindowIsBounded(t *testing.T) {
	const least, most = congestion.MinWindow, congestion.MaxWindow
	for window, want := range map[int]uint64{-5: least, 0: least, 1 << 40: most, 50_000: 50_000} {
		w := newWorld(t, withController(&fixedController{window: window}))
		require.Equal(t, want, w.s.state.Window.Load())
	}
}
