// Package resulttest has a report for tests.
package resulttest

import (
	"fmt"
	"time"

	"sluice/lab/bench/result"
)

// Hostile is the name of a system that breaks markup.
const Hostile = `<script>alert("x")</script>`

// Sample returns a report with some of everything: two systems, several kinds, a run that does not count, and names
// that break markup.
func Sample() result.Report {
	r := result.Report{
		Format: result.Format, Commit: "abc1234", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Duration: 90,
		Seed:    7,
		Command: []string{"sluice-lab", "bench", "--relay-cmd", "other --bind {addr} 'x'"},
		Machine: result.Machine{Kernel: "6.18.0", CPU: "A CPU & more", Cores: 2, Memory: 8 << 30,
			Virtualised: "kvm", Offloads: map[string]string{"gro": "on"}},
		Hosts: []result.Host{{Role: "relay", Machine: result.Machine{CPU: "A CPU", Cores: 4, Kernel: "6.12"},
			Device: result.Device{Name: "eth<0>", Driver: "ice", MTU: 1500, Queues: 8, RPS: "0f"}}},
		Systems: []result.System{{Name: "sluice", Version: "1", Command: "sluice relay"},
			{Name: Hostile, Command: "other | tee"}},
		Metrics: map[string]result.Metric{
			"delay":     {Title: "delay", Unit: "ms", Better: -1},
			"delay.p50": {Title: "delay, p50", Unit: "ms", Better: -1},
			"delay.p99": {Title: "delay, p99", Unit: "ms", Better: -1},
			"cpu":       {Title: "CPU by user", Unit: "%", Better: -1},
			"cpu.all":   {Title: "CPU", Unit: "%", Better: -1},
			"capacity":  {Title: "subscribers served", Better: 1},
			"goodput":   {Title: "goodput", Unit: "Mbit/s", Better: 1},
		},
	}
	for _, n := range []int{1, 10} {
		s := result.Scenario{Kind: "delay", Name: fmt.Sprint("delay/", n), Title: fmt.Sprint("fan-out ", n),
			Params: result.Params{Subscribers: n, Load: "idle"}}
		for i, system := range r.Systems {
			scale := float64(n * (i + 1))
			d := result.Distribution{Count: 300, At: []float64{0, 0.5, 0.99, 1},
				Value: []float64{0.1 * scale, 0.2 * scale, 3 * scale, 8 * scale}}
			s.Runs = append(s.Runs, result.Run{System: system.Name, Repetition: 1,
				Distributions: map[string]result.Distribution{"delay": d}},
				result.Run{System: system.Name, Repetition: 2, Unusable: "the load generator was the bottleneck"})
			s.Summaries = append(s.Summaries, result.Summary{System: system.Name, Runs: 2, Notes: []string{"a note"},
				Distributions: map[string]result.Distribution{"delay": d},
				Metrics: map[string]result.Statistic{
					"delay.p50": {Median: 0.2 * scale, Min: 0.15 * scale, Max: 0.22 * scale},
					"delay.p99": {Median: 3 * scale, Min: 2.9 * scale, Max: 3.3 * scale}, "cpu.all": same(scale)},
				Breakdowns: map[string]map[string]result.Statistic{"cpu": {"user": same(1), "softirq": same(2)}},
			})
		}
		r.Scenarios = append(r.Scenarios, s)
	}
	capacity := result.Scenario{Kind: "capacity", Name: "capacity", Title: "capacity", Summaries: []result.Summary{
		{System: "sluice", Runs: 2, Metrics: map[string]result.Statistic{"capacity": {Median: 80, Min: 78, Max: 81}}},
		{System: Hostile, Runs: 2, Metrics: map[string]result.Statistic{"capacity": {Median: 200, Min: 190, Max: 210}}},
	}}
	congestion := result.Scenario{Kind: "congestion", Name: "congestion/step", Title: "step"}
	for i, system := range r.Systems {
		congestion.Runs = append(congestion.Runs, result.Run{System: system.Name, Repetition: 1,
			Series: map[string]result.Series{
				"goodput": {Time: []float64{0, 1, 2}, Value: []float64{1, float64(i), 2}},
			}})
		congestion.Summaries = append(congestion.Summaries,
			result.Summary{System: system.Name, Runs: 1, Metrics: map[string]result.Statistic{"goodput": same(1)}})
	}
	r.Scenarios = append(r.Scenarios, capacity, congestion)
	return r
}

func same(v float64) result.Statistic { return result.Statistic{Median: v, Min: v, Max: v} }
