package estimate

import (
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
)

const ms = time.Millisecond

// TestCases compares estimates with the path. They depend a little on the order of goroutines, another one each time.
func TestCases(t *testing.T) {
	thorough.Only(t)
	for _, c := range []Case{
		{Bulk, 50 * ms, .01, 0}, {Media, 50 * ms, 0, 0}, {Media, 5 * ms, .01, 0}, {Sparse, 20 * ms, 0, 0},
		{Both, 150 * ms, .01, 0}, {Both, 20 * ms, 0, 2 * ms},
	} {
		t.Run(c.Name(), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, 1)
			for _, w := range Run(t, c, 1) {
				for _, packets := range [][]Packet{w.Client, w.Middle} {
					rtt, ok := betweenEnds(packets)
					require.True(t, ok)
					require.InEpsilon(t, w.RTT, rtt, .1)
				}
			}
		})
	}
}

// TestTruth compares what counts as true with the path, and with what an end has measured. The queue of a bulk flow on
// a short path is never empty: all packets follow each other at the rate of the link, and tell nothing.
func TestTruth(t *testing.T) {
	thorough.Only(t)
	cryptotest.SetGlobalRandom(t, 1)
	for _, w := range Run(t, Case{Workload: Sparse, RTT: 50 * ms}, 1) {
		require.InDelta(t, 50*ms, w.RTT, float64(ms)/10)
		require.InDelta(t, w.RTT+maxAckDelay/2, w.Smoothed, float64(maxAckDelay))
	}
	for _, w := range Run(t, Case{Workload: Bulk, RTT: 5 * ms}, 1) {
		require.InDelta(t, 5*ms+minQueue/2, w.RTT, float64(minQueue)/2)
		_, ok := betweenEnds(w.Client)
		require.False(t, ok)
	}
}

// TestCompare compares one case. Everybody knows its RTT but the server, which adds the client's delay.
func TestCompare(t *testing.T) {
	thorough.Only(t)
	r := Compare(t, []Case{{Sparse, 20 * ms, 0, 0}}, 1)
	require.NoError(t, r.Validate())
	require.Len(t, r.Scenarios, 1)
	require.Equal(t, "estimate/sparse/20/0/0", r.Scenarios[0].Name)
	for _, s := range r.Scenarios[0].Summaries {
		require.Equal(t, float64(100), s.Metrics["found"].Median, s.System)
		if s.System != "server itself" {
			require.Less(t, s.Metrics["error.p90"].Median, 1., s.System)
		}
	}
}

// TestAmbiguous has messages at exactly the same distance: their ACKs may be those of any message before.
func TestAmbiguous(t *testing.T) {
	ask := func(period time.Duration) (time.Duration, bool) {
		var packets []Packet
		for at := time.Duration(0); at < windowed; at += period {
			packets = append(packets, Packet{at, 200, true}, Packet{at + 30*ms + maxAckDelay, 32, false})
		}
		return ToEnd(packets, false)
	}
	_, ok := ask(100 * ms)
	require.False(t, ok)
	rtt, ok := ask(450 * ms)
	require.True(t, ok)
	require.Equal(t, 30*ms, rtt)
}
