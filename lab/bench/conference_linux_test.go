package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/load"
	"sluice/lab/bench/trial"
	"sluice/lab/bench/video"
)

// TestConference has two participants with a session each: frames of the warm-up do not count, and each session lacks
// objects of one participant only.
func TestConference(t *testing.T) {
	at := func(published, age time.Duration) video.Arrival {
		return video.Arrival{Published: int64(published), Arrived: int64(published + age)}
	}
	hosts := [][]load.Received{
		{{Objects: 3, Arrivals: []video.Arrival{
			at(3*time.Second, 4*time.Millisecond), at(time.Second, time.Minute), at(2*time.Second, 2*time.Millisecond),
		}}},
		{{}}, // it got nothing
	}
	require.Equal(t, []float64{2, 4}, agesOf(hosts, time.Second))
	m := &trial.Measurement{Publishers: 2, Published: load.Published{Objects: 3 + 5}, Received: hosts}
	m.Sessions = 2
	o := newOutcome()
	o.addObjects(m)
	require.EqualValues(t, 5, o.Metrics["lost"])
}
