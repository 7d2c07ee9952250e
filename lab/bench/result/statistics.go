package result

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Distribution is the sorted values of a quantity at some quantiles, enough to draw it: At[i] is the fraction of all
// values, from 0 to 1 and ascending, that do not exceed Value[i].
type Distribution struct {
	Count int       `json:"count"` // of values
	At    []float64 `json:"at"`
	Value []float64 `json:"value"`
}

// distributionAt are the quantiles of a Distribution: every percent, and finer steps in the last one.
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

// NewDistribution returns the distribution of values, which it sorts.
func NewDistribution(values []float64) Distribution {
	d := Distribution{Count: len(values)}
	if len(values) == 0 {
		return d
	}
	slices.Sort(values)
	d.At = distributionAt
	for _, q := range d.At {
		d.Value = append(d.Value, Quantile(values, q))
	}
	return d
}

// Quantile returns the value at a quantile that the distribution has; 0 if it has none.
func (d Distribution) Quantile(at float64) float64 {
	if i := slices.Index(d.At, at); i >= 0 {
		return d.Value[i]
	}
	return 0
}

// Quantile returns the smallest of sorted values that at least the fraction q of all values do not exceed (nearest
// rank). The lab's delays have the same definition.
func Quantile(sorted []float64, q float64) float64 {
	// The rank is rounded up, unless only rounding in q's binary form makes it too large.
	rank := int(math.Ceil(q*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Tail is a quantile of a distribution that becomes a metric. Its name is the end of the metric's name: "first.p99".
type Tail struct {
	Name string
	At   float64
}

// Tails returns the quantiles that become metrics.
func Tails() []Tail {
	return []Tail{{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p99.9", .999}}
}

// AddQuantiles adds the quantiles of sorted values to metrics, except the ones that too few values would decide.
func AddQuantiles(metrics map[string]float64, name string, sorted []float64) {
	for _, t := range Tails() {
		if float64(len(sorted))*(1-t.At) > 1-1e-9 {
			metrics[name+"."+t.Name] = Quantile(sorted, t.At)
		}
	}
}

// Statistic is a metric over several runs.
type Statistic struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// NewStatistic returns the statistic of at least one value.
func NewStatistic(values []float64) Statistic {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Statistic{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// Summarize returns the summary of the runs of one system, without distributions.
func Summarize(system string, runs []Run) Summary {
	s := Summary{System: system}
	var usable []Run
	for _, r := range runs {
		for _, n := range r.Notes {
			if !slices.Contains(s.Notes, n) {
				s.Notes = append(s.Notes, n)
			}
		}
		if s.Unusable = r.Unusable; r.Unusable == "" {
			usable = append(usable, r)
		}
	}
	if s.Runs = len(usable); s.Runs == 0 {
		return s
	}
	s.Unusable = ""
	s.Metrics = statistics(usable, func(r Run) map[string]float64 { return r.Metrics })
	for name := range usable[0].Breakdowns {
		if s.Breakdowns == nil {
			s.Breakdowns = make(map[string]map[string]Statistic)
		}
		s.Breakdowns[name] = statistics(usable, func(r Run) map[string]float64 { return r.Breakdowns[name] })
	}
	return s
}

// statistics returns the statistics of runs by name. Runs without a name do not count for it.
func statistics(runs []Run, of func(Run) map[string]float64) map[string]Statistic {
	values := make(map[string][]float64)
	for _, r := range runs {
		for name, v := range of(r) {
			values[name] = append(values[name], v)
		}
	}
	out := make(map[string]Statistic, len(values))
	for name, v := range values {
		out[name] = NewStatistic(v)
	}
	return out
}

// String returns the median, with the range if there is one.
func (s Statistic) String() string {
	median, low, high := Number(s.Median).String(), Number(s.Min).String(), Number(s.Max).String()
	if low == high || !Number(s.Min).Finite() || !Number(s.Max).Finite() {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, low, high)
}

// negligible is the share by which two values may differ and still count as even: single runs have no
// spread.
const negligible = 0.02

// Compare returns 1 if s is larger than o beyond the spread of the runs, -1 if it is smaller, 0 if neither.
func (s Statistic) Compare(o Statistic) int {
	if !apart(s, o) || math.Abs(s.Median-o.Median) <= negligible*max(math.Abs(s.Median), math.Abs(o.Median)) {
		return 0
	}
	return cmp.Compare(s.Median, o.Median)
}

// apart reports whether the ranges of the runs do not overlap.
func apart(a, b Statistic) bool { return a.Max < b.Min || b.Max < a.Min }

func (d Distribution) validate() error {
	if len(d.At) != len(d.Value) {
		return fmt.Errorf("%d fractions for %d values", len(d.At), len(d.Value))
	}
	if !slices.IsSorted(d.At) || !slices.IsSorted(d.Value) {
		return errors.New("not sorted")
	}
	return nil
}
