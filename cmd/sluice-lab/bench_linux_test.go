package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

func TestPrintReport(t *testing.T) {
	median := func(v float64) result.Statistic { return result.Statistic{Median: v} }
	r := &result.Report{
		Metrics: map[string]result.Metric{"capacity": {Unit: "subscribers"}},
		Scenarios: []result.Scenario{
			{Kind: result.KindCapacity, Title: "one", Summaries: []result.Summary{
				{System: "a", Runs: 3, Metrics: map[string]result.Statistic{"capacity": median(1234.5)}},
			}},
			{Kind: result.KindCapacity, Title: "two", Summaries: []result.Summary{
				{System: "a", Runs: 1, Metrics: map[string]result.Statistic{"capacity": median(0.12345)}},
				{System: "b", Unusable: "it has ended\nand more"},
			}},
		},
	}
	var out bytes.Buffer
	printReport(&out, r, shown)
	require.Equal(t, `
CAPACITY  RELAY  RUNS  CAPACITY [subscribers]  CAPACITY.ATLEAST
one       a      3     1234                    -
two       a      1     0.123                   -
two       b      0     it has ended
`, out.String())
}
