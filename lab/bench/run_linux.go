package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"sluice/lab/bench/procfs"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
)

// runner is a call of Measure.
type runner struct {
	RunConfig
	stage  *trial.Stage
	report *result.Report
	peers  map[string]string // the implementations that systems name

	pathSeed uint64 // of the paths in the current repetition
}

// plan is a load under which all systems run, and the kinds of scenarios that it yields.
type plan struct {
	kinds   []string
	title   string
	views   []view        // the scenarios of each kind that a run shows
	without []string      // systems that do not take part
	length  time.Duration // of a run, about
	run     runFunc
}

// runFunc runs a plan with a system once. It returns an outcome for each view.
type runFunc func(context.Context, system.Spec) ([]*outcome, error)

// view is a scenario of a plan, without the kind.
type view struct {
	name, title string
	params      result.Params
}

// Measure measures the systems in a lab that it builds for them. Errors that mean "this machine cannot do it" are a
// *[lab.MissingError]. A relay that fails makes a run unusable; this is no error. When the context is done, the
// report has the scenarios that were completed.
func Measure(ctx context.Context, cfg RunConfig) (_ *result.Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &runner{RunConfig: cfg.withDefaults(), peers: make(map[string]string)}
	r.report = &result.Report{
		Format: result.Format, Commit: r.Commit, Date: time.Now().UTC().Truncate(time.Second),
		Command: r.Command, Seed: r.Seed, Hosts: r.Hosts, Metrics: describe(),
	}
	if r.report.Machine, err = procfs.ReadMachine(); err != nil {
		return nil, fmt.Errorf("describe this machine: %w", err)
	}
	if r.stage, err = r.openStage(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stage.Close()) }()
	if r.report.Machine.Offloads, err = r.stage.Offloads(); err != nil {
		return nil, fmt.Errorf("read the offload settings: %w", err)
	}
	before, err := procfs.ReadCPU()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	err = r.runAll(ctx)
	elapsed := time.Since(begin)
	after, statErr := procfs.ReadCPU()
	r.report.Duration = elapsed.Seconds()
	stolen := after.Minus(before).Steal.Seconds()
	r.report.Machine.Steal = stolen / elapsed.Seconds() / float64(r.report.Machine.Cores)
	r.addSystems()
	return r.report, errors.Join(err, statErr)
}

func (r *runner) openStage(ctx context.Context) (*trial.Stage, error) {
	if r.Machines != nil {
		return trial.OpenMachines(r.Programs, *r.Machines)
	}
	return trial.OpenStage(ctx, r.Programs, len(bottlenecks)+1, r.Seed)
}

// addSystems adds the systems that took part in any scenario to the report.
func (r *runner) addSystems() {
	for _, spec := range r.Systems {
		tookPart := func(s result.Scenario) bool { return s.Summary(spec.Name).Unusable != result.NotRun }
		if slices.ContainsFunc(r.report.Scenarios, tookPart) {
			s := result.System{Name: spec.Name, Version: cmp.Or(spec.Version, r.peers[spec.Name]),
				Command: spec.Command}
			r.report.Systems = append(r.report.Systems, s)
		}
	}
}

func (r *runner) runAll(ctx context.Context) error {
	plans := r.plans()
	runs, total := r.estimate(plans)
	r.Progress(fmt.Sprintf("%d runs under %d loads, about %.0f min", runs, len(plans), math.Ceil(total.Minutes())))
	for i, p := range plans {
		r.Progress(fmt.Sprintf("%d/%d %s", i+1, len(plans), p.title))
		if err := r.runPlan(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// runPlan runs all systems in turns, so that changes on the machine affect all of them.
func (r *runner) runPlan(ctx context.Context, p plan) error {
	specs, runs := r.participants(p), make([][]outcome, len(p.views))
	for repetition := range r.Repetitions {
		r.pathSeed = r.Seed + uint64(repetition)
		for _, spec := range specs {
			outcomes, err := p.run(ctx, spec)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				failed := newOutcome()
				failed.Unusable = "the run failed: " + err.Error()
				outcomes = slices.Repeat([]*outcome{failed}, len(p.views))
			}
			for i, o := range outcomes {
				o.System, o.Repetition = spec.Name, repetition+1
				runs[i] = append(runs[i], *o)
			}
			r.note(outcomes[0].of(p.kinds[0]))
		}
	}
	for _, kind := range p.kinds {
		for i, v := range p.views {
			r.report.Scenarios = append(r.report.Scenarios, r.finish(v, kind, specs, runs[i]))
		}
	}
	return nil
}

// note reports a run that is unusable.
func (r *runner) note(o outcome) {
	if o.peer != "" {
		r.peers[o.System] = o.peer
	}
	if o.Unusable != "" {
		r.Progress(fmt.Sprintf("    %s: %s", o.System, o.Unusable))
	}
}

// finish returns the scenario of a kind that runs yield.
func (r *runner) finish(v view, kind string, specs []system.Spec, runs []outcome) result.Scenario {
	s := r.scenario(kind, v.name, v.title, v.params)
	bySystem := make(map[string][]outcome)
	for _, o := range runs {
		o = o.of(kind)
		s.Runs = append(s.Runs, o.finished())
		bySystem[o.System] = append(bySystem[o.System], o)
	}
	for _, spec := range specs {
		s.Summaries = append(s.Summaries, summarize(spec.Name, bySystem[spec.Name]))
	}
	return s
}

// plans returns the plans to run.
func (r *runner) plans() []plan {
	var plans []plan
	plans = append(plans, r.fanoutPlans(result.KindDelay, result.KindCPU, result.KindMemory)...)
	for _, n := range r.Subscribers {
		plans = append(plans, r.syscallPlan(n), r.profilePlan(n))
	}
	plans = slices.Concat(plans, []plan{r.capacityPlan(result.KindCapacity)}, r.congestionPlans(),
		[]plan{r.bystanderPlan(slices.Max(r.Subscribers))}, r.chainPlans(), []plan{r.conferencePlan()}, r.clientPlans(),
		r.fanoutPlans(result.KindRTSP), []plan{r.capacityPlan(result.KindRTSP)})
	return slices.DeleteFunc(plans, func(p plan) bool { return len(p.kinds) == 0 })
}

// participants returns the systems that run under a plan.
func (r *runner) participants(p plan) []system.Spec {
	return slices.DeleteFunc(slices.Clone(r.Systems), func(spec system.Spec) bool {
		return !spec.TakesPart(p.kinds) || slices.Contains(p.without, spec.Name)
	})
}

// estimate returns the number of runs of plans, and about how long they take.
func (r *runner) estimate(plans []plan) (runs int, total time.Duration) {
	for _, p := range plans {
		n := r.Repetitions * len(r.participants(p))
		runs += n
		total += time.Duration(n) * p.length
	}
	return runs, total
}

// fanoutPlans are a relay with each number of subscribers, for some kinds of scenarios, without and with a hog.
func (r *runner) fanoutPlans(kinds ...string) (plans []plan) {
	for _, load := range []string{loadIdle, loadHog} {
		for _, n := range r.Subscribers {
			if load == loadIdle || n <= hogSubscribers {
				plans = append(plans, r.fanoutPlan(n, load, kinds))
			}
		}
	}
	return plans
}

// oneTrial returns a plan with one view, whose runs are one trial each. add adds to a run what the scenarios are about.
func (r *runner) oneTrial(
	kinds []string, v view, setup trial.Setup, add func(*outcome, *trial.Measurement),
) plan {
	v.params = r.withMock(v.params, setup.Sessions[0])
	length := r.warmup + cmp.Or(setup.Duration, r.Duration) + time.Duration(max(setup.Relays, 1))*runOverhead
	if setup.Idle {
		length += trial.IdlePeriod
	}
	run := func(ctx context.Context, spec system.Spec) ([]*outcome, error) {
		if setup.Relays > 1 && spec.Further == "" {
			o := newOutcome()
			o.Unusable = "it is not known how to make one relay subscribe at another"
			return []*outcome{o}, nil
		}
		setup := setup
		setup.System = spec
		m, err := r.try(ctx, setup)
		if err != nil {
			return nil, err
		}
		o := outcomeOf(m)
		if setup.Idle || v.params.Load == loadIdle {
			o.exhausted = m.Exhausted()
		}
		add(o, m)
		return []*outcome{o}, nil
	}
	return plan{kinds: r.wanted(kinds...), title: v.title, views: []view{v}, length: length, run: run}
}

// fanoutPlan is a relay with a number of subscribers. With a hog, only delays have a meaning.
func (r *runner) fanoutPlan(subscribers int, load string, kinds []string) plan {
	if load == loadHog {
		kinds = kinds[:1]
	}
	setup := trial.Setup{Sessions: []int{subscribers}, Idle: load == loadIdle, Hog: load == loadHog}
	title := fmt.Sprintf("%s, %s", subscriberCount(subscribers), load)
	if setup.RTSP = kinds[0] == result.KindRTSP; setup.RTSP {
		title = "RTSP, " + title
	}
	return r.oneTrial(kinds, view{fmt.Sprintf("%d/%s", subscribers, load), title, result.Params{Load: load}}, setup,
		func(o *outcome, m *trial.Measurement) {
			if setup.Idle {
				o.addCPU(&m.Usage)
				o.addTimeline(m)
			}
			o.addDelays(m)
		})
}

// syscallPlan counts the system calls of a relay by name.
func (r *runner) syscallPlan(subscribers int) plan {
	return r.longPlan(result.KindSyscalls, "system calls, ", syscallPeriod, subscribers, trial.Setup{Syscalls: true},
		func(o *outcome, m *trial.Measurement) { o.addSyscalls(m.Syscalls, &m.Usage) })
}

// longPlan is a run of a period of its own, unless it is to be brief.
func (r *runner) longPlan(
	kind, title string, period time.Duration, subscribers int, setup trial.Setup,
	add func(*outcome, *trial.Measurement),
) plan {
	if r.Brief {
		period = r.Duration
	}
	setup.Sessions, setup.Duration = []int{subscribers}, period
	v := view{fmt.Sprint(subscribers), title + subscriberCount(subscribers), result.Params{Duration: period.Seconds()}}
	return r.oneTrial([]string{kind}, v, setup, add)
}

// profilePlan has the CPU time of Sluice's process by function. A sample is 10 ms of it, so this takes some minutes.
func (r *runner) profilePlan(subscribers int) plan {
	p := r.longPlan(result.KindProfile, "profile, ", profilePeriod, subscribers, trial.Setup{Profile: true},
		func(o *outcome, m *trial.Measurement) { o.addProfile(m.Functions, &m.Usage) })
	for _, s := range r.Systems {
		if s.Metrics == "" {
			p.without = append(p.without, s.Name)
		}
	}
	return p
}

// bystanderPlan measures how long others wait for the processor that handles the publisher's packets.
func (r *runner) bystanderPlan(subscribers int) plan {
	v := view{name: fmt.Sprint(subscribers), title: "a bystander's ping, " + subscriberCount(subscribers)}
	return r.oneTrial([]string{result.KindBystander}, v,
		trial.Setup{Sessions: []int{subscribers}, Idle: true, Bystander: true},
		func(o *outcome, m *trial.Measurement) { o.addPings(m.Pinged, m.IdlePinged) })
}

// clientPlans measure the delay of frames from and to programs that people use, with one player.
func (r *runner) clientPlans() (plans []plan) {
	for _, c := range r.Clients {
		v := view{name: c.Name, title: "the clients of " + c.Name}
		plans = append(plans, r.oneTrial([]string{result.KindClients}, v,
			trial.Setup{Clients: &c, Init: r.Init, Sessions: []int{1}},
			(*outcome).addDelays))
	}
	return plans
}

// try runs a trial. A setting that cfg lacks is the same as in all runs.
func (r *runner) try(ctx context.Context, cfg trial.Setup) (*trial.Measurement, error) {
	cfg.Mock, cfg.Warmup = cmp.Or(cfg.Mock, r.mock()), cmp.Or(cfg.Warmup, r.warmup)
	cfg.Duration = cmp.Or(cfg.Duration, r.Duration)
	return r.stage.Run(ctx, cfg)
}

// Loads of result.Params.
const (
	loadIdle = "idle"
	loadHog  = "hog"
)

// hogSubscribers is the largest fan-out with a hog. With more subscribers, the result depends on the load generators.
const hogSubscribers = 50

// runOverhead is about how long the start of a run and the reports at its end take.
const runOverhead = time.Second

func subscriberCount(n int) string {
	if n == 1 {
		return "1 subscriber"
	}
	return fmt.Sprintf("%d subscribers", n)
}

// outcomeOf returns the results that every trial has.
func outcomeOf(m *trial.Measurement) *outcome {
	o := newOutcome()
	o.peer = m.Peer
	o.addUsage(&m.Usage)
	o.addMemory(m)
	o.addObjects(m)
	o.Unusable = m.Bottleneck()
	return o
}
