package bench

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
	"sluice/lab/measure"
)

// Frames go to two subscribers: to the first 1 and 2 ms after they came in, to the second later.
func TestDelays(t *testing.T) {
	var packets []measure.Packet
	subscribers := []netip.AddrPort{netip.MustParseAddrPort("198.19.1.1:1"), netip.MustParseAddrPort("198.19.1.1:2")}
	pass := func(at time.Duration, point int, to netip.AddrPort, size int) {
		packets = append(packets, measure.Packet{Time: at, Point: point, Flow: measure.Flow{Target: to}, Length: size})
	}
	relay := netip.MustParseAddrPort("198.18.0.1:4443")
	for n := range 12 {
		at := time.Duration(n) * 40 * time.Millisecond
		pass(at, measure.In, relay, 1200)
		pass(at+100*time.Microsecond, measure.In, relay, 900)
		pass(at+500*time.Microsecond, measure.Out, subscribers[0], 40) // an acknowledgement
		pass(at+time.Millisecond, measure.Out, subscribers[0], 1200)
		pass(at+1500*time.Microsecond, measure.Out, subscribers[1], 1200)
		pass(at+2100*time.Microsecond, measure.Out, subscribers[0], 900)
		pass(at+3100*time.Microsecond+time.Duration(n%2)*time.Millisecond, measure.Out, subscribers[1], 900)
	}
	o := newOutcome()
	o.addDelays(&trial.Measurement{Usage: trial.Usage{Begin: 40 * time.Millisecond}, Packets: packets})
	require.Zero(t, o.Metrics["unmatched"])
	require.Len(t, o.values["first"], 20, "all frames but the first and the last, twice")
	require.Equal(t, 1., o.values["first"][0])
	require.Equal(t, 1.5, o.values["first"][19])
	require.Equal(t, 2., o.values["last"][0])
	require.Equal(t, 4., o.values["last"][19])
	require.Len(t, o.values["jitter"], 18)
	require.Zero(t, o.values["jitter"][17])
	require.Equal(t, result.Series{
		Time:  []float64{0, .04, .08, .12, .16, .2, .24, .28, .32, .36},
		Value: []float64{1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25},
	}, o.Series["first"], "the median of 1 and 1.5 ms")
	require.Equal(t, []float64{3, 2.5, 3}, o.Series["last"].Value[:3])
}
