package estimate

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/lab/bench/result"
)

// Cases returns all cases.
func Cases() (all []Case) {
	for _, w := range []Workload{Bulk, Media, Sparse, Both} {
		for _, path := range []Case{{}, {Loss: .01}, {Loss: .01, Jitter: 2 * time.Millisecond}} {
			for _, ms := range []time.Duration{5, 20, 50, 150} {
				all = append(all, Case{w, ms * time.Millisecond, path.Loss, path.Jitter})
			}
		}
	}
	return all
}

// observer is who estimates RTTs.
type observer struct {
	name string
	rtt  func(w *Window) (time.Duration, bool)
}

// observers returns them, and to compare with, the server, which knows the packets' numbers.
func observers() []observer {
	return []observer{
		{"at the client", func(w *Window) (time.Duration, bool) { return betweenEnds(w.Client) }},
		{"in the middle", func(w *Window) (time.Duration, bool) { return betweenEnds(w.Middle) }},
		{"server itself", func(w *Window) (time.Duration, bool) { return w.Smoothed, true }},
	}
}

// betweenEnds estimates the RTT of the whole path.
func betweenEnds(seen []Packet) (time.Duration, bool) {
	toClient, ok := ToEnd(seen, false)
	if !ok {
		return 0, false
	}
	toServer, ok := ToEnd(seen, true)
	return toClient + toServer, ok
}

// Compare has connections, each with some seeds, and reports how far estimates are from the truth.
func Compare(t *testing.T, cases []Case, seeds int) *result.Report {
	r := &result.Report{
		Format: result.Format, Seed: 1, Machine: result.Machine{CPU: "a simulation"},
		Metrics: map[string]result.Metric{
			"error.p50": {Title: "error of the RTT, p50", Unit: "%"},
			"error.p90": {Title: "error of the RTT, p90", Unit: "%"},
			"found":     {Title: "periods with an estimate", Unit: "%"},
		},
	}
	for _, o := range observers() {
		r.Systems = append(r.Systems, result.System{Name: o.name})
	}
	var mu sync.Mutex
	errors := make(map[string][]float64) // percent, by case and observer
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			for seed := range seeds {
				t.Run(fmt.Sprint(c.Name(), " ", seed), func(t *testing.T) {
					t.Parallel()
					for _, w := range Run(t, c, uint64(seed+1)) {
						for _, o := range observers() {
							if rtt, ok := o.rtt(&w); ok {
								mu.Lock()
								of := c.Name() + o.name
								errors[of] = append(errors[of], 100*float64((rtt-w.RTT).Abs())/float64(w.RTT))
								mu.Unlock()
							}
						}
					}
				})
			}
		}
	})
	for _, c := range cases {
		s := result.Scenario{
			Kind: "estimate", Name: "estimate/" + c.Name(),
			Title:  fmt.Sprintf("%s, RTT %v, %g %% loss, jitter %v", c.Workload, c.RTT, 100*c.Loss, c.Jitter),
			Params: result.Params{Media: string(c.Workload), Duration: windowed.Seconds(), Warmup: warmUp.Seconds()},
		}
		for _, o := range observers() {
			s.Runs = append(s.Runs, run(o.name, errors[c.Name()+o.name], seeds*windows))
			s.Summaries = append(s.Summaries, result.Summarize(o.name, s.Runs[len(s.Runs)-1:]))
		}
		r.Scenarios = append(r.Scenarios, s)
	}
	return r
}

// run returns the errors of an observer as a run of a report.
func run(observer string, errors []float64, periods int) result.Run {
	m := map[string]float64{"found": 100 * float64(len(errors)) / float64(periods)}
	if slices.Sort(errors); len(errors) > 0 {
		m["error.p50"], m["error.p90"] = result.Quantile(errors, .5), result.Quantile(errors, .9)
	}
	return result.Run{System: observer, Repetition: 1, Metrics: m}
}
