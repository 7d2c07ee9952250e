package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

func TestOverSubscribers(t *testing.T) {
	require.Equal(t, result.Series{Time: []float64{10, 20, 40}, Value: []float64{1, 2, 7}},
		overSubscribers(map[int]float64{40: 7, 10: 1, 20: 2}))
}

func TestCapacityDecides(t *testing.T) {
	for name, c := range map[string]struct {
		metrics       map[string]float64
		unusable      string
		good, decided bool
		bound         string
	}{
		"good":                {map[string]float64{"last.p99": 5}, "", true, true, "before"},
		"slow":                {map[string]float64{"last.p99": 5.1}, "", false, true, ""},
		"lost":                {map[string]float64{"last.p99": 1, "lost": 1}, "", false, true, ""},
		"no frame is known":   {map[string]float64{"unmatched": 100}, "", false, true, ""},
		"unknown":             {map[string]float64{"last.p99": 1, "unmatched": 1.1}, "", false, false, ""},
		"slow, and exhausted": {map[string]float64{"last.p99": 9}, "busy", false, true, "at 7 subscribers: busy"},
		"good, and exhausted": {map[string]float64{"last.p99": 1}, "busy", true, true, "before"},
	} {
		search := capacitySearch{curve: make(map[int]float64), bound: "before"}
		o := newOutcome()
		o.Metrics, o.Unusable = c.metrics, c.unusable
		good, decided := search.decide(7, o)
		require.Equal(t, [2]bool{c.good, c.decided}, [2]bool{good, decided}, name)
		require.Equal(t, c.bound, search.bound, name)
		require.Equal(t, c.metrics["last.p99"], search.curve[7], name)
	}
}

func TestCapacityOutcome(t *testing.T) {
	search := capacitySearch{
		runner: runnerOf(nil, RunConfig{Brief: true}), curve: map[int]float64{20: 3, 10: 1}, peer: "a relay",
	}
	o := search.outcome(20)
	require.Equal(t, map[string]float64{"capacity": 20}, o.Metrics)
	require.Equal(t, "a relay", o.peer)
	require.Equal(t, result.Series{Time: []float64{10, 20}, Value: []float64{1, 3}}, o.Series["capacity.p99"])
	o = search.outcome(100)
	require.Equal(t, map[string]float64{"capacity.atleast": 100}, o.Metrics)
	require.Equal(t, []string{"more were not tried"}, o.Notes)
	search.bound = "at 30 subscribers: busy"
	o = search.outcome(20)
	require.Equal(t, map[string]float64{"capacity.atleast": 20}, o.Metrics)
	require.Equal(t, []string{search.bound}, o.Notes)
}
