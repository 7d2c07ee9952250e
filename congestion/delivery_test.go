package congestion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

// ackOf is an ACK of packets that were sent at these times, in milliseconds, after 40 ms.
func ackOf(now, first, last, packets int) AckEvent {
	at := func(ms int) clock.Time { return clock.Time(time.Hour).Add(time.Duration(ms) * time.Millisecond) }
	return AckEvent{Now: at(now), Bytes: packets * 1000, First: at(first), Sent: at(last), SRTT: 40 * ms}
}

func TestDeliveryRate(t *testing.T) {
	var d deliveryRate
	s := d.acked(ackOf(40, 0, 0, 10), 40*ms) // a burst
	require.True(t, s.resumed)
	require.InDelta(t, 250_000, s.rate, 1, "10 packets in a round trip")
	s = d.acked(ackOf(50, 10, 10, 10), 40*ms)
	require.False(t, s.resumed)
	require.InDelta(t, 20_000/0.05, s.rate, 1, "sent before the first ACK: counts from the first packet on")
	s = d.acked(ackOf(90, 45, 50, 20), 40*ms)
	require.InDelta(t, 20_000/0.04, s.rate, 1)
	require.Equal(t, 20_000.0, s.prior)

	s = d.acked(ackOf(91, 60, 60, 20), 40*ms) // ACKs come at once, but packets were sent in 50 ms
	require.InDelta(t, 40_000/0.05, s.rate, 1)

	s = d.acked(ackOf(95, 30, 30, 1), 40*ms)
	require.False(t, s.known, "overtaken")

	s = d.acked(ackOf(1040, 1000, 1000, 10), 40*ms)
	require.True(t, s.resumed)
	require.InDelta(t, 250_000, s.rate, 1, "the pause does not count")
}

func TestDeliveryRateUnreliable(t *testing.T) {
	var d deliveryRate
	d.acked(ackOf(40, 0, 0, 1), 40*ms)
	s := d.acked(ackOf(55, 50, 50, 1), 40*ms)
	require.True(t, s.known)
	require.Zero(t, s.rate, "an ACK within less than the RTT is of another packet")
}

func TestDeliveryRateLosses(t *testing.T) {
	var d deliveryRate
	d.acked(ackOf(40, 0, 0, 10), 40*ms)
	require.False(t, d.acked(ackOf(80, 40, 40, 10), 40*ms).resumed)
	s := d.lose(LossEvent{Now: clock.Time(time.Hour).Add(80 * ms), Bytes: 3000})
	require.Equal(t, 3000.0, s.lost)
	require.Equal(t, 13_000.0, s.inFlight())
	s = d.acked(ackOf(120, 80, 80, 10), 40*ms)
	require.Zero(t, s.lost, "sent after the loss was found")
}

// A sample of packets that were sent before data had to wait measures the application, not the path.
func TestDeliveryRateAppLimited(t *testing.T) {
	var d deliveryRate
	d.acked(ackOf(40, 0, 0, 10), 40*ms)
	e := ackOf(80, 40, 40, 10)
	e.LimitedSince = e.First
	require.True(t, d.acked(e, 40*ms).appLimited)
	e2 := ackOf(120, 80, 80, 10)
	e2.LimitedSince = e.First
	require.False(t, d.acked(e2, 40*ms).appLimited)
	e2 = ackOf(160, 120, 120, 10)
	e2.AppLimited = true
	require.True(t, d.acked(e2, 40*ms).appLimited)
	d.limit(1000)
	require.True(t, d.acked(ackOf(200, 160, 160, 10), 40*ms).appLimited)
	d.limit(0)
	require.False(t, d.acked(ackOf(240, 200, 200, 10), 40*ms).appLimited)
}

// However many ACKs come in a round trip, and however long it becomes, samples span little more than a round trip.
func TestDeliveryRateCheckpoints(t *testing.T) {
	var d deliveryRate
	now := clock.Time(time.Hour)
	for rtt := 40 * ms; rtt < 400*ms; rtt += 10 * time.Microsecond {
		now = now.Add(100 * time.Microsecond)
		s := d.acked(AckEvent{
			Now: now, Bytes: 100, First: now.Add(-rtt), Sent: now.Add(-rtt), SRTT: rtt,
		}, 40*ms)
		require.LessOrEqual(t, d.n, maxCheckpoints)
		if s.prior > 0 {
			require.InEpsilon(t, 1e6, s.rate, 0.15)
			require.LessOrEqual(t, s.delivered, rtt.Seconds()*1e6*1.15)
		}
	}
}

// Packets with CE count as lost, and as delivered, and once as bytes in flight.
func TestDeliveryRateMarked(t *testing.T) {
	var d deliveryRate
	d.acked(ackOf(100, 0, 0, 10), 0)
	e := ackOf(200, 101, 101, 10)
	d.lose(LossEvent{Now: e.Now, Packets: 10, Bytes: e.Bytes, Sent: e.Sent})
	d.arrived(e.Bytes)
	s := d.acked(e, 0)
	require.EqualValues(t, e.Bytes, s.lost)
	require.EqualValues(t, e.Bytes, s.inFlight())
	require.Zero(t, d.acked(ackOf(300, 201, 201, 10), 0).marked)
	require.Zero(t, d.lose(LossEvent{}).marked)
}
