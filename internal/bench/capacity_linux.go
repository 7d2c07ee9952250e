package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"
)

const (
	capacityFirst   = 10                   // subscribers, of the first run
	capacityLimit   = 5 * time.Millisecond // p99, last to last
	capacityPeriod  = 4 * time.Second      // two groups: with its key frame in it, p99 means the same as in other runs
	capacityBrief   = 2 * time.Second      // in a brief bench
	capacityWarmup  = 500 * time.Millisecond
	capacityResolve = .1 // of the number of subscribers
	// capacityProbes is about how many numbers are tried in a run.
	capacityProbes = 4
	// unmatchedLimit is the share of frames, in percent, whose packets may be impossible to tell apart: their delay is unknown, and not small.
	unmatchedLimit = 1
)

func (s *stage) capacityPlan() plan {
	p := plan{
		kinds: s.wanted(KindCapacity), name: fmt.Sprint(s.MaxCapacity), title: fmt.Sprintf("capacity, up to %d subscribers", s.MaxCapacity),
		params: s.mockParams(0), repetitions: s.Repetitions,
	}
	period := s.capacityPeriod()
	p.params.Duration, p.length = period.Seconds(), capacityProbes*(capacityWarmup+period+runOverhead)
	found := make(map[string]int) // by the runs so far: the next begin there
	p.run = func(ctx context.Context, s *stage, spec Spec) (*outcome, error) {
		search := capacitySearch{stage: s, spec: spec, curve: make(map[int]float64)}
		first, step := capacityFirst, capacityFirst
		if n := found[spec.Name]; n > 0 {
			first, step = n, int(math.Ceil(capacityResolve*float64(n)))
		}
		enough, err := bisect(first, step, s.MaxCapacity, capacityResolve, func(n int) (bool, error) { return search.probe(ctx, n) })
		if err != nil {
			return nil, err
		}
		found[spec.Name] = enough
		return search.outcome(enough), nil
	}
	return p
}

func (s *stage) capacityPeriod() time.Duration {
	if s.Brief {
		return capacityBrief
	}
	return capacityPeriod
}

// capacitySearch is a run.
type capacitySearch struct {
	stage *stage
	spec  Spec
	curve map[int]float64 // p99, ms, by subscribers
	bound string          // why more could not be measured
	peer  string
}

// probe reports whether the relay serves so many subscribers well. Where that is not clear, because a pause of the publisher within a frame
// made two of it, it tries again.
func (c *capacitySearch) probe(ctx context.Context, n int) (bool, error) {
	good, clear, err := c.try(ctx, n)
	if err == nil && !clear {
		good, _, err = c.try(ctx, n)
	}
	return good, err
}

// try is one trial; clear is false if all frames whose delay is known are well served, but too many are not known.
func (c *capacitySearch) try(ctx context.Context, n int) (good, clear bool, err error) {
	s := c.stage
	m, err := s.try(ctx, s.trial(c.spec, trialConfig{sessions: []int{n}, warmup: capacityWarmup, duration: s.capacityPeriod()}))
	if err != nil {
		return false, false, err
	}
	o := m.outcome()
	o.Unusable = cmp.Or(o.Unusable, m.exhausted())
	d := measureDelays(m.packets, n)
	d.add(o)
	p99, ok := o.Metrics["last.p99"]
	if ok {
		c.curve[n] = p99
	}
	fine, clear := ok && p99 <= milliseconds(capacityLimit) && o.Metrics["lost"] == 0, o.Metrics["unmatched"] <= unmatchedLimit
	good = fine && clear
	s.Progress(fmt.Sprintf("    %s, %d subscribers: p99 %.2f ms, %.0f lost, %.1f %% unknown %s",
		c.spec.Name, n, p99, o.Metrics["lost"], o.Metrics["unmatched"], o.Unusable))
	if !good {
		c.bound = ""
		if o.Unusable != "" {
			c.bound = fmt.Sprintf("at %d subscribers: %s", n, o.Unusable)
		}
	}
	c.peer = m.peer
	return good, clear || !fine, nil
}

// outcome is the run, if so many subscribers were served well, and not more.
func (c *capacitySearch) outcome(enough int) *outcome {
	o := newOutcome()
	o.peer = c.peer
	switch {
	case c.bound != "":
		o.Metrics["capacity.atleast"] = float64(enough)
		o.Notes = append(o.Notes, c.bound)
	case enough == c.stage.MaxCapacity:
		o.Metrics["capacity.atleast"] = float64(enough)
		o.Notes = append(o.Notes, "more were not tried")
	default:
		o.Metrics["capacity"] = float64(enough)
	}
	o.Series["capacity.p99"] = seriesOf(c.curve)
	return o
}
