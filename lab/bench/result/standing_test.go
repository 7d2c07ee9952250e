package result_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
	"sluice/lab/bench/result/resulttest"
)

func TestStanding(t *testing.T) {
	require.Equal(t, result.Standing{
		Behind: []result.Behind{{
			Scenario: "capacity", Metric: "subscribers served", Subject: "80 (78–81)",
			Others: resulttest.Hostile + ": 200 (190–210)", Factor: 2.5,
		}},
		Worse:  1,
		Better: 6, // delay p50 and p99 and the CPU, under two loads
		Even:   1, // the goodput
	}, resulttest.Sample().Standing())
}

// Each case has the subject's and the other's value of a metric; less is better.
func TestStandingOfTwo(t *testing.T) {
	statistic := func(v [3]float64) result.Statistic { return result.Statistic{Min: v[0], Median: v[1], Max: v[2]} }
	for name, c := range map[string]struct {
		subject, other      [3]float64 // lowest, median, highest
		worse, better, even int
		factor              string
	}{
		"better":               {[3]float64{1, 2, 3}, [3]float64{4, 5, 6}, 0, 1, 0, ""},
		"worse":                {[3]float64{4, 6, 7}, [3]float64{1, 2, 3}, 1, 0, 0, "3"},
		"ranges overlap":       {[3]float64{1, 2, 4}, [3]float64{3, 5, 6}, 0, 0, 1, ""},
		"nearly the same":      {[3]float64{100, 100, 100}, [3]float64{101, 101, 101}, 0, 0, 1, ""},
		"more than negligible": {[3]float64{103, 103, 103}, [3]float64{100, 100, 100}, 1, 0, 0, "1.03"},
		"worse than zero":      {[3]float64{1, 1, 1}, [3]float64{0, 0, 0}, 1, 0, 0, "–"},
	} {
		r := result.Report{
			Systems: []result.System{{Name: "a"}, {Name: "b"}, {Name: "takes no part"}},
			Metrics: map[string]result.Metric{"m": {Better: -1}, "beside": {Better: -1, Beside: true}, "observed": {}},
			Scenarios: []result.Scenario{{Summaries: []result.Summary{
				{System: "a", Metrics: map[string]result.Statistic{
					"m": statistic(c.subject), "beside": {}, "observed": {},
				}},
				{System: "b", Metrics: map[string]result.Statistic{
					"m": statistic(c.other), "beside": {Median: 1}, "observed": {Median: 1},
				}},
			}}},
		}
		s := r.Standing()
		require.Equal(t, [3]int{c.worse, c.better, c.even}, [3]int{s.Worse, s.Better, s.Even}, name)
		require.Len(t, s.Behind, c.worse, name)
		for _, b := range s.Behind {
			require.Equal(t, c.factor, b.Factor.String(), name)
		}
	}
	require.Empty(t, result.Report{}.Standing())
}

// The best of several others decides the factor, and the largest factor comes first.
func TestStandingOrder(t *testing.T) {
	at := func(v float64) result.Statistic { return result.Statistic{Median: v, Min: v, Max: v} }
	summary := func(system string, x, y float64) result.Summary {
		return result.Summary{System: system, Metrics: map[string]result.Statistic{"x": at(x), "y": at(y)}}
	}
	r := result.Report{
		Systems: []result.System{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Metrics: map[string]result.Metric{"x": {Better: 1}, "y": {Better: 1}},
		Scenarios: []result.Scenario{{Summaries: []result.Summary{summary("a", 1, 1), summary("b", 2, 3),
			summary("c", 4, 6)}}},
	}
	s := r.Standing()
	require.Equal(t, 4, s.Worse)
	require.Equal(t, []result.Behind{
		{Metric: "y", Subject: "1", Others: "b: 3; c: 6", Factor: 6},
		{Metric: "x", Subject: "1", Others: "b: 2; c: 4", Factor: 4},
	}, s.Behind)
}
