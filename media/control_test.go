package media

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
)

// Samples come from the largest acknowledged packet only, if it is newly acknowledged and the sender's own (RFC 9002
// §5.1). quic-go gets them too, its own packets being the smaller part.
func TestRTTSamples(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	first := w.run()[0].number
	w.s.NextPacketNumber()
	w.clock.advance(20 * time.Millisecond)
	log.Append(testBytes(10, 10))
	second := w.run()[0].number

	w.clock.advance(30 * time.Millisecond)
	rtt, err := w.ackRanges(quic.AckRange{Smallest: first, Largest: second})
	require.NoError(t, err)
	require.Equal(t, 30*time.Millisecond, rtt)
	require.Equal(t, 30*time.Millisecond, w.s.Stats().SRTT)

	w.clock.advance(30 * time.Millisecond)
	rtt, _ = w.ackRanges(quic.AckRange{Smallest: first, Largest: second})
	require.Zero(t, rtt, "nothing new")

	log.Append(testBytes(20, 10))
	third := w.run()[0].number
	other := w.s.NextPacketNumber()
	w.clock.advance(50 * time.Millisecond)
	rtt, _ = w.ackRanges(quic.AckRange{Smallest: third, Largest: other})
	require.Zero(t, rtt, "the largest is quic-go's")
	require.Equal(t, 30*time.Millisecond, w.s.Stats().SRTT)
}

// The peer's delay is subtracted, up to its max_ack_delay.
func TestAckDelay(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	for i, delay := range []time.Duration{0, 20 * time.Millisecond, time.Second} {
		if i > 0 {
			log.Append(testBytes(log.End(), 10))
		}
		p := w.run()[0]
		w.clock.advance(100*time.Millisecond + min(delay, 25*time.Millisecond))
		_, err := w.s.Acked(&quic.AckInfo{
			Ranges: []quic.AckRange{{Smallest: p.number, Largest: p.number}}, Delay: delay, Received: w.clock.Wall(),
		})
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, w.s.Stats().SRTT)
	}
}

// A frame on an idle path leaves at once, a long burst at the controller's rate.
func TestPacing(t *testing.T) {
	f := &fixedController{window: 1 << 20, rate: 1_000_000}
	w := newWorld(t, withController(f))
	log := newTestLog(0, 100_000)
	w.stream(w.subscribe(), log)
	require.GreaterOrEqual(t, len(w.run())*testMTU, 100_000)

	log.Append(testBytes(100_000, 400_000))
	begin, n := w.clock.t, 0
	w.run()
	for w.s.observer.waits() {
		for _, p := range w.sleep(time.Second) {
			n += p.size
		}
	}
	require.NotZero(t, w.s.Stats().Reasons[BlockedPacing])
	require.InDelta(t, (400 * ms).Seconds(), w.clock.t.Sub(begin).Seconds(), 0.05)
}

// The forwarder, which needs one token of the pacer's bucket, comes again and again while the media sender sleeps until
// there are enough for a packet. What waits in user space goes first; then the forwarder goes on.
func TestPacingGoesFirst(t *testing.T) {
	const rate, burst, waits = 125_000, 128 << 10, 100_000
	f := &fixedController{window: 1 << 20, rate: rate}
	w := newWorld(t, withController(f))
	log := newTestLog(0, burst)
	w.stream(w.subscribe(), log)
	w.run()
	offer := func() bool { // a copy, as the forwarder does
		now, state := w.clock.Now(), w.s.state
		if state.Admit(claim.Admission{Size: testMTU, Now: now}) != claim.Admitted {
			return false
		}
		state.Charge(testMTU, now)
		return true
	}
	log.Append(testBytes(burst, waits))
	w.run()
	begin := w.clock.t
	for w.s.observer.waits() {
		require.False(t, offer(), "%v after the begin", w.clock.t.Sub(begin))
		for next := w.clock.t.Add(5 * time.Millisecond); w.clock.t < next; {
			w.sleep(next.Sub(w.clock.t))
		}
		w.ack(0)
	}
	require.InDelta(t, float64(waits)/rate, w.clock.t.Sub(begin).Seconds(), 0.1)
	w.clock.advance(20 * time.Millisecond)
	require.True(t, offer(), "nothing waits in user space")
}
