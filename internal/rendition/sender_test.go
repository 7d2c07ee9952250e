package rendition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBurst has key frames of 10 kB on paths that take 1 and 3 Mbit/s, with a window that either would fill.
func TestBurst(t *testing.T) {
	const frame = 10_000
	for rate, want := range map[float64]float64{1e6: 1e6, 3e6: 3e6} {
		var p Sender
		require.Zero(t, p.Burst(), "nothing was measured")
		s := Sent{Window: 50_000, MinRTT: 40 * time.Millisecond, Flows: true}
		s.SRTT, s.Longest = s.MinRTT, s.MinRTT+time.Duration(frame*8/rate*float64(time.Second))
		for i := range 2 * rateSamples {
			if s.Bytes += 500; i%20 == 0 {
				s.Bytes += frame - 500
			}
			p.Look(start.Add(time.Duration(i)*Tick), s)
		}
		require.InEpsilon(t, want, p.Burst(), 1e-6)
		last := p.Last()
		require.Equal(t, start.Add(time.Duration(2*rateSamples-1)*Tick), last)
		s.Window = 5_000
		p.Look(start.Add(time.Minute), s)
		require.InEpsilon(t, 8*5_000/s.Longest.Seconds(), p.Burst(), 1e-6, "no more than a window in each RTT")
		require.Equal(t, last, p.Last(), "nothing more was sent")
	}
}
