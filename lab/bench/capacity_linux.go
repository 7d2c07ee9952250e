package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
)

const (
	capacityFirst   = 10                   // subscribers of the first trial
	capacityLimit   = 5 * time.Millisecond // p99 delay of the last packet
	capacityWarmup  = 500 * time.Millisecond
	capacityResolve = .1 // of the number of subscribers
	// capacityProbes is about how many numbers are tried in a run.
	capacityProbes = 4
	// unmatchedLimit is the largest share of frames, in percent, that may have an unknown, perhaps long, delay.
	unmatchedLimit = 1
)

// capacityPlan searches the largest number of subscribers that a relay serves well, for scenarios of a kind.
func (r *runner) capacityPlan(kind string) plan {
	period, isRTSP := r.capacityPeriod, kind == result.KindRTSP
	v := view{fmt.Sprint(r.maxCapacity), fmt.Sprintf("capacity, up to %d subscribers", r.maxCapacity),
		r.withMock(result.Params{Duration: period.Seconds()}, 0)}
	if isRTSP {
		v.name, v.title = "capacity/"+v.name, "RTSP, "+v.title
	}
	found := make(map[string]int) // by system: the next run begins there
	run := func(ctx context.Context, spec system.Spec) ([]*outcome, error) {
		search := capacitySearch{runner: r, spec: spec, rtsp: isRTSP, curve: make(map[int]float64)}
		first, step := capacityFirst, capacityFirst
		if n := found[spec.Name]; n > 0 {
			first, step = n, int(math.Ceil(capacityResolve*float64(n)))
		}
		good := func(n int) (bool, error) { return search.probe(ctx, n) }
		enough, err := bisect(first, step, r.maxCapacity, capacityResolve, good)
		if err != nil {
			return nil, err
		}
		found[spec.Name] = enough
		return []*outcome{search.outcome(enough)}, nil
	}
	return plan{
		kinds: r.wanted(kind), title: v.title, views: []view{v}, run: run,
		length: capacityProbes * (capacityWarmup + period + runOverhead),
	}
}

// capacitySearch is a run of a capacityPlan: several trials.
type capacitySearch struct {
	runner *runner
	spec   system.Spec
	rtsp   bool
	curve  map[int]float64 // p99 delay, ms, by subscribers
	bound  string          // why more subscribers could not be measured; "" if they could
	peer   string
}

// probe reports whether the relay serves n subscribers well. It tries again if the first trial does not decide this,
// because a pause of the publisher within a frame made the frame look like two.
func (c *capacitySearch) probe(ctx context.Context, n int) (bool, error) {
	good, decided, err := c.try(ctx, n)
	if err == nil && !decided {
		good, _, err = c.try(ctx, n)
	}
	return good, err
}

// try is one trial. decided is false if all frames with a known delay are served well, but too many delays are unknown.
func (c *capacitySearch) try(ctx context.Context, n int) (good, decided bool, err error) {
	m, err := c.runner.try(ctx, trial.Setup{
		System: c.spec, RTSP: c.rtsp, Sessions: []int{n}, Warmup: capacityWarmup, Duration: c.runner.capacityPeriod,
	})
	if err != nil {
		return false, false, err
	}
	o := outcomeOf(m)
	o.Unusable = cmp.Or(o.Unusable, m.Exhausted())
	o.addDelays(m)
	c.runner.Progress(fmt.Sprintf("    %s, %d subscribers: p99 %.2f ms, %.0f lost, %.1f %% unknown %s", c.spec.Name, n,
		o.Metrics["last.p99"], o.Metrics["lost"], o.Metrics["unmatched"], o.Unusable))
	c.peer = m.Peer
	good, decided = c.decide(n, o)
	return good, decided, nil
}

// decide decides whether a trial with n subscribers was good.
func (c *capacitySearch) decide(n int, o *outcome) (good, decided bool) {
	p99, ok := o.Metrics["last.p99"]
	if ok {
		c.curve[n] = p99
	}
	fine := ok && p99 <= milliseconds(capacityLimit) && o.Metrics["lost"] == 0
	known := o.Metrics["unmatched"] <= unmatchedLimit
	if fine && known {
		return true, true
	}
	c.bound = ""
	if o.Unusable != "" {
		c.bound = fmt.Sprintf("at %d subscribers: %s", n, o.Unusable)
	}
	return false, !fine
}

// outcome returns the run's outcome when enough is the largest number of subscribers served well.
func (c *capacitySearch) outcome(enough int) *outcome {
	o := newOutcome()
	o.peer = c.peer
	switch {
	case c.bound != "":
		o.Metrics["capacity.atleast"] = float64(enough)
		o.Notes = append(o.Notes, c.bound)
	case enough == c.runner.maxCapacity:
		o.Metrics["capacity.atleast"] = float64(enough)
		o.Notes = append(o.Notes, "more were not tried")
	default:
		o.Metrics["capacity"] = float64(enough)
	}
	o.Series["capacity.p99"] = overSubscribers(c.curve)
	return o
}

// overSubscribers returns a function of the number of subscribers as a series: the number takes the place of time.
func overSubscribers(values map[int]float64) (s result.Series) {
	for _, n := range slices.Sorted(maps.Keys(values)) {
		s.Add(float64(n), values[n])
	}
	return s
}
