package bench

import (
	"maps"
	"math"
	"slices"
)

// distributionAt are the quantiles of a Distribution: every percent, and the tail finer.
var distributionAt = func() (at []float64) {
	for i := range 100 {
		at = append(at, float64(i)/100)
	}
	for i := 991; i < 1000; i++ {
		at = append(at, float64(i)/1000)
	}
	for i := 9991; i < 10000; i++ {
		at = append(at, float64(i)/10000)
	}
	return append(at, 1)
}()

// newDistribution sorts values.
func newDistribution(values []float64) Distribution {
	d := Distribution{Count: len(values)}
	if len(values) == 0 {
		return d
	}
	slices.Sort(values)
	d.At = distributionAt
	for _, q := range d.At {
		d.Value = append(d.Value, quantile(values, q))
	}
	return d
}

// quantile returns the smallest of sorted values that at least the fraction q of all do not exceed (nearest rank), as lab.Delays does.
func quantile(sorted []float64, q float64) float64 {
	// The rank is rounded up, but not because q has no exact form.
	rank := int(math.Ceil(q*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// tails are the quantiles of a distribution that become metrics, by the end of their name.
var tails = []struct {
	name string
	at   float64
}{{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p99.9", .999}}

// addQuantiles adds the quantiles of sorted values to metrics, but those that too few values decide.
func addQuantiles(metrics map[string]float64, name string, sorted []float64) {
	for _, t := range tails {
		if float64(len(sorted))*(1-t.at) > 1-1e-9 {
			metrics[name+"."+t.name] = quantile(sorted, t.at)
		}
	}
}

func newStatistic(values []float64) Statistic {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Statistic{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// outcome is a run with all values of its distributions, sorted.
type outcome struct {
	Run
	values map[string][]float64
	// cpuNotes are Run.Notes of scenarios about CPU time.
	cpuNotes []string
	peer     string // what the system calls itself
}

func newOutcome() *outcome {
	return &outcome{
		Run:    Run{Metrics: make(map[string]float64), Breakdowns: make(map[string]map[string]float64), Series: make(map[string]Series)},
		values: make(map[string][]float64),
	}
}

// finished returns the run with its distributions.
func (o outcome) finished() Run {
	o.Distributions = make(map[string]Distribution)
	for name, values := range o.values {
		o.Distributions[name] = newDistribution(values)
	}
	return o.Run
}

// summarize summarizes the runs of one system.
func summarize(system string, runs []outcome) Summary {
	s := Summary{System: system}
	var usable []outcome
	for _, r := range runs {
		for _, n := range r.Notes {
			if !slices.Contains(s.Notes, n) {
				s.Notes = append(s.Notes, n)
			}
		}
		if r.Unusable == "" {
			usable = append(usable, r)
		}
	}
	if s.Runs = len(usable); s.Runs == 0 {
		if len(runs) > 0 {
			s.Unusable = runs[len(runs)-1].Unusable
		}
		return s
	}
	s.Metrics = statistics(usable, func(r outcome) map[string]float64 { return r.Metrics })
	s.Breakdowns = make(map[string]map[string]Statistic)
	for name := range usable[0].Breakdowns {
		s.Breakdowns[name] = statistics(usable, func(r outcome) map[string]float64 { return r.Breakdowns[name] })
	}
	s.Distributions = make(map[string]Distribution)
	for name := range usable[0].values {
		var all []float64
		for _, r := range usable {
			all = append(all, r.values[name]...)
		}
		s.Distributions[name] = newDistribution(all)
		s.addTail(name, all)
	}
	return s
}

// addTail adds the quantiles that no single run had enough values for, but all together have. They have no spread.
func (s *Summary) addTail(name string, sorted []float64) {
	pooled := make(map[string]float64)
	addQuantiles(pooled, name, sorted)
	for n, v := range pooled {
		if _, ok := s.Metrics[n]; !ok {
			s.Metrics[n] = Statistic{v, v, v}
		}
	}
}

// statistics summarizes the metrics of runs by name. Runs that do not have one are left out.
func statistics(runs []outcome, of func(outcome) map[string]float64) map[string]Statistic {
	values := make(map[string][]float64)
	for _, r := range runs {
		for name, v := range of(r) {
			values[name] = append(values[name], v)
		}
	}
	result := make(map[string]Statistic, len(values))
	for _, name := range slices.Collect(maps.Keys(values)) {
		result[name] = newStatistic(values[name])
	}
	return result
}

// quantile returns the value at a quantile that the distribution has; 0 if it has none.
func (d Distribution) quantile(at float64) float64 {
	if i := slices.Index(d.At, at); i >= 0 {
		return d.Value[i]
	}
	return 0
}
