package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// plan is a load under which all systems run, and the kinds of scenarios that its runs answer.
type plan struct {
	kinds []string
	// name and title are those of the scenarios, but for the kind.
	name, title string
	params      Params
	repetitions int
	length      time.Duration // of a run, about
	run         func(context.Context, *stage, Spec) (*outcome, error)
}

// Measure measures the systems in a lab that it builds for that. Errors that mean "this machine cannot do it" are a *[lab.MissingError]. A
// relay that fails makes a run unusable, and is no error. When the context is done, the report has the scenarios that were completed.
func Measure(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	r := &Report{Format: Format, Commit: cfg.Commit, Date: time.Now().UTC().Truncate(time.Second), Command: cfg.Command, Seed: cfg.Seed, Metrics: describe()}
	if r.Machine, err = readMachine(); err != nil {
		return nil, fmt.Errorf("describe this machine: %w", err)
	}
	s, err := openStage(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if r.Machine.Offloads, err = readOffloads(s.lab.Relay, s.lab.Relay.Devices[0].Name); err != nil {
		return nil, fmt.Errorf("read the offload settings: %w", err)
	}
	begin := time.Now()
	before, err := readStat()
	if err != nil {
		return nil, err
	}
	b := &bench{stage: s, report: r, peers: make(map[string]string)}
	err = b.runAll(ctx)
	after, statErr := readStat()
	elapsed := time.Since(begin)
	r.Duration = elapsed.Seconds()
	r.Machine.Steal = after.minus(before).steal.Seconds() / elapsed.Seconds() / float64(r.Machine.Cores)
	for _, spec := range cfg.Systems {
		if slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { return s.summary(spec.Name).Unusable != notRun }) {
			r.Systems = append(r.Systems, System{Name: spec.Name, Version: cmp.Or(spec.Version, b.peers[spec.Name]), Command: spec.Command})
		}
	}
	return r, errors.Join(err, statErr)
}

// bench is a call of Measure.
type bench struct {
	stage  *stage
	report *Report
	peers  map[string]string // what systems call themselves
}

func (b *bench) runAll(ctx context.Context) error {
	plans := b.stage.plans()
	runs, total := b.stage.estimate(plans)
	b.stage.Progress(fmt.Sprintf("%d runs under %d loads, about %.0f min", runs, len(plans), math.Ceil(total.Minutes())))
	for i, p := range plans {
		b.stage.Progress(fmt.Sprintf("%d/%d %s", i+1, len(plans), p.title))
		if err := b.runPlan(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// runPlan runs all systems one after the other, again and again, so that what changes on the machine meanwhile meets all of them.
func (b *bench) runPlan(ctx context.Context, p plan) error {
	specs := b.stage.participants(p)
	outcomes := make(map[string][]outcome)
	var all []outcome
	for repetition := range p.repetitions {
		for _, spec := range specs {
			o, err := p.run(ctx, b.stage, spec)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				o = &outcome{Run: Run{Unusable: "the run failed: " + err.Error()}}
			}
			o.System, o.Repetition = spec.Name, repetition+1
			b.note(spec, o)
			outcomes[spec.Name] = append(outcomes[spec.Name], *o)
			all = append(all, *o)
		}
	}
	for _, kind := range p.kinds {
		b.report.Scenarios = append(b.report.Scenarios, b.scenario(p, kind, specs, outcomes, all))
	}
	return nil
}

// note tells what a run found.
func (b *bench) note(spec Spec, o *outcome) {
	if o.peer != "" {
		b.peers[spec.Name] = o.peer
	}
	if o.Unusable != "" {
		b.stage.Progress(fmt.Sprintf("    %s: %s", spec.Name, o.Unusable))
	}
}

// scenario is a plan as the report has it.
func (b *bench) scenario(p plan, kind string, specs []Spec, outcomes map[string][]outcome, all []outcome) Scenario {
	s := b.stage.scenario(kind, p.name, p.title, p.params)
	for _, o := range all {
		s.Runs = append(s.Runs, o.of(kind).finished())
	}
	for _, spec := range specs {
		var runs []outcome
		for _, o := range outcomes[spec.Name] {
			runs = append(runs, o.of(kind))
		}
		s.Summaries = append(s.Summaries, summarize(spec.Name, runs))
	}
	return s
}
