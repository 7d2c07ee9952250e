package media

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/track"
)

// A peer that acknowledges all but one packet of a stream, and no RESET_STREAM, does not keep the stream for ever.
func TestSelectiveAcknowledgments(t *testing.T) {
	for name, c := range map[string]struct {
		withheld func(*wirePacket) bool
		arrived  int64
	}{
		"first packet": {func(p *wirePacket) bool { return p.frame&^0x07 == packet.FrameStream && p.offset == 0 }, 0},
		"FIN":          {func(p *wirePacket) bool { return p.fin }, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withController(&fixedController{window: 1 << 20}))
			log := newTestLog(0, 5000)
			_, results := w.stream(w.subscribe(), log)
			packets := w.run()
			log.Finish()
			packets = append(packets, w.run()...)
			for rounds := 0; w.s.Stats().Open > 0; rounds++ {
				require.Less(t, rounds, 10_000, "repeated without an end")
				for _, p := range packets {
					if c.withheld(p) || p.frame == packet.FrameResetStream {
						w.peer.forget(p.number)
					}
				}
				w.ack(50 * ms)
				packets = w.sleep(time.Second)
			}
			want := Result{
				Outcome: Unacknowledged, Code: codeDeliveryTimeout, ID: 3, Sent: 5000, Arrived: c.arrived,
			}
			require.Equal(t, []Result{want}, results())
			require.Equal(t, []uint64{3, codeDeliveryTimeout, 5006}, w.peer.lastReset)
			require.False(t, log.Pinned())
			require.EqualValues(t, 1, w.s.Stats().Reasons[ResetUnacknowledged])
			for range 5 {
				w.ack(50 * ms)
				w.sleep(time.Hour)
			}
			require.Equal(t, clock.Never, w.shard.alarms.next(), "nothing keeps the sender")
		})
	}
}

func TestNoAckTimeout(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.sender.AckTimeout = -1 })
	_, results := w.stream(w.subscribe(), newTestLog(0, 10))
	w.run()
	for range 1000 {
		w.sleep(time.Minute)
	}
	require.Empty(t, results())
}

// The same with a stream on which only the forwarder sends: its state is given back.
func TestSelectiveAcknowledgmentsOfForwarder(t *testing.T) {
	w, f := withForwarder(t)
	st := f.open(int64(len(testPrefix)), 0)
	f.send(st, int64(len(testPrefix)), 100, false) // which is never acknowledged
	log := newTestLog(0, 100)
	_, results := w.adopt(log)
	w.run()
	for rounds := 0; w.s.Stats().Open > 0; rounds++ {
		require.Less(t, rounds, 10_000, "repeated without an end")
		if _, closed := st.Cursor(); !closed {
			number := f.send(st, 0, log.End()+10, false)
			log.Append(testBytes(log.End(), 10))
			w.run()
			w.ackNumbers(number)
		}
		w.sleep(100 * ms)
	}
	require.Equal(t, Unacknowledged, results()[0].Outcome)
	require.Equal(t, []*claim.StreamState{st}, f.freed)
	log.Finish()
	w.run()
	require.False(t, log.Pinned())
}

// Bytes that were sent and are not acknowledged count for MaxBehindBytes: their logs are kept for the subscriber.
func TestTooFarBehindUnacknowledged(t *testing.T) {
	var e lagging
	w := newWorld(t, withController(&fixedController{window: 1 << 20}), func(c *worldConfig) {
		c.sender.MaxBehindBytes = 100_000
	})
	sub := w.subscribe(func(c *SubscriptionConfig) { c.OnBehind = e.note })
	logs := []*track.Log{newTestLog(0, 10), newTestLog(0, 10)}
	var withheld []int64
	for _, log := range logs {
		w.stream(sub, log)
		for _, p := range w.run() {
			withheld = append(withheld, p.number)
		}
	}
	for range 12 {
		require.Empty(t, e.bytes)
		for _, log := range logs {
			log.Append(testBytes(log.End(), 4500))
		}
		for _, p := range w.run() {
			if p.offset == 0 {
				withheld = append(withheld, p.number)
			}
		}
		w.peer.forget(withheld...)
		w.ack(50 * ms)
		for range 10 {
			for _, p := range w.sleep(200 * ms) {
				withheld = append(withheld, p.number)
			}
		}
	}
	require.Len(t, e.bytes, 1)
	require.Greater(t, e.bytes[0], int64(100_000))
	require.Zero(t, e.lag[0])
}
