package forwarding

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"sluice/lab/bench/procfs"
	"sluice/lab/bench/result"
)

// Measure measures all monitors, and the router without one, under each load in turns (A B A B …), so changes on the
// machine affect all of them. A monitor that fails makes a run unusable, which is no error if one of its runs is
// usable. When the context is done, the report has the scenarios that were completed. It needs root.
func Measure(ctx context.Context, c Config) (*result.Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	r := &result.Report{
		Format: result.Format, Date: time.Now().UTC().Truncate(time.Second), Seed: 1, Metrics: metrics,
	}
	var err error
	if r.Machine, err = procfs.ReadMachine(); err != nil {
		return nil, err
	}
	var names []string
	for i := range c.Monitors {
		m := &c.Monitors[i]
		if err := m.find(); err != nil {
			return nil, err
		}
		names = append(names, m.Name)
		r.Systems = append(r.Systems, result.System{Name: m.Name, Version: m.Version, Command: m.Program})
	}
	names = append(names, None)
	r.Systems = append(r.Systems, result.System{Name: None})
	begin := time.Now()
	err = cmp.Or(c.measure(ctx, r, names), requireRuns(r, names))
	r.Duration = time.Since(begin).Seconds()
	return r, err
}

func (c Config) measure(ctx context.Context, r *result.Report, names []string) error {
	loads := c.loads()
	each := c.Duration + c.Settle + time.Second
	all := time.Duration(len(loads)*c.Repetitions*(1+len(c.Monitors))) * each
	c.Progress(fmt.Sprintf("%d loads, about %.0f min", len(loads), math.Ceil(all.Minutes())))
	for i, l := range loads {
		s := c.scenario(l)
		c.Progress(fmt.Sprintf("%d/%d %s", i+1, len(loads), s.Title))
		for repetition := range c.Repetitions {
			runs := c.round(ctx, l)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			for _, run := range runs {
				run.Repetition = repetition + 1
				if run.Unusable != "" {
					c.Progress(fmt.Sprintf("    %s: %s", run.System, run.Unusable))
				}
				s.Runs = append(s.Runs, run)
			}
		}
		summarize(&s, names)
		r.Scenarios = append(r.Scenarios, s)
	}
	return nil
}

// requireRuns returns an error if no run of one of the systems was usable.
func requireRuns(r *result.Report, systems []string) error {
	for _, name := range systems {
		usable, reason := false, ""
		for i := range r.Scenarios {
			for _, s := range r.Scenarios[i].Summaries {
				if s.System == name {
					usable, reason = usable || s.Runs > 0, cmp.Or(reason, s.Unusable)
				}
			}
		}
		if !usable && reason != "" { // without a reason it has none of the modes
			return fmt.Errorf("%s: no run was usable: %s", name, reason)
		}
	}
	return nil
}

// round runs each monitor that has the mode, and the router without one, once.
func (c Config) round(ctx context.Context, l load) (runs []result.Run) {
	for i := range c.Monitors {
		if _, ok := c.Monitors[i].Arguments[l.mode]; ok {
			runs = append(runs, c.run(ctx, l, &c.Monitors[i]))
		}
	}
	return append(runs, c.run(ctx, l, nil))
}
