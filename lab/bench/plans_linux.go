package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
)

// Loads of result.Params.
const (
	loadIdle = "idle"
	loadHog  = "hog"
)

// hogSubscribers is the largest fan-out with a hog. With more subscribers, the result depends on the load generators.
const hogSubscribers = 50

// plans returns the plans to run.
func (r *runner) plans() []plan {
	var plans []plan
	plans = append(plans, r.fanoutPlans(result.KindDelay, result.KindCPU, result.KindMemory)...)
	for _, n := range r.Subscribers {
		plans = append(plans, r.syscallPlan(n))
	}
	plans = append(plans, r.capacityPlan(result.KindCapacity), r.congestionPlan(), r.ladderPlan(),
		r.bystanderPlan(slices.Max(r.Subscribers)))
	plans = slices.Concat(plans, r.chainPlans(), r.fanoutPlans(result.KindRTSP))
	plans = append(plans, r.capacityPlan(result.KindRTSP))
	return slices.DeleteFunc(plans, func(p plan) bool { return len(p.kinds) == 0 })
}

// participants returns the systems that run under a plan.
func (r *runner) participants(p plan) []system.Spec {
	return slices.DeleteFunc(slices.Clone(r.Systems), func(spec system.Spec) bool {
		return !spec.TakesPart(p.kinds) || slices.Contains(p.without, spec.Name)
	})
}

// runOverhead is about how long the start of a run and the reports at its end take.
const runOverhead = time.Second

// estimate returns the number of runs of plans, and about how long they take.
func (r *runner) estimate(plans []plan) (runs int, total time.Duration) {
	for _, p := range plans {
		n := p.repetitions * len(r.participants(p))
		runs += n
		total += time.Duration(n) * p.length
	}
	return runs, total
}

func subscriberCount(n int) string {
	if n == 1 {
		return "1 subscriber"
	}
	return fmt.Sprintf("%d subscribers", n)
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

// fanoutPlan is a relay with a number of subscribers. With a hog, only delays have a meaning.
func (r *runner) fanoutPlan(subscribers int, load string, kinds []string) plan {
	if load == loadHog {
		kinds = kinds[:1]
	}
	p := plan{
		kinds: r.wanted(kinds...), name: fmt.Sprintf("%d/%s", subscribers, load),
		title: fmt.Sprintf("%s, %s", subscriberCount(subscribers), load), params: r.mockParams(subscribers),
		repetitions: r.Repetitions, length: r.Warmup + r.Duration + runOverhead,
	}
	setup := trial.Setup{Sessions: []int{subscribers}, Idle: load == loadIdle, Hog: load == loadHog}
	if setup.Idle {
		p.length += trial.IdlePeriod
	}
	if kinds[0] == result.KindRTSP {
		setup.RTSP, p.title, p.params.Cipher = true, "RTSP, "+p.title, "" // RTP is in the clear
	}
	p.params.Load, p.run = load, r.fanout(setup)
	return p
}

// fanout returns the runs of a load with sessions at one host: delays and memory, and CPU if the machine is measured
// without media, too.
func (r *runner) fanout(setup trial.Setup) func(context.Context, system.Spec) (*outcome, error) {
	return func(ctx context.Context, spec system.Spec) (*outcome, error) {
		cfg := setup
		cfg.System = spec
		m, err := r.try(ctx, cfg)
		if err != nil {
			return nil, err
		}
		o := outcomeOf(m)
		if cfg.Idle {
			o.addCPU(&m.Usage)
			o.addTimeline(m)
			o.Unusable = cmp.Or(o.Unusable, m.Exhausted())
		}
		o.addDelays(measureDelays(m, cfg.Sessions[0]))
		return o, nil
	}
}

// try runs a trial. A setting that cfg lacks is the same as in all runs.
func (r *runner) try(ctx context.Context, cfg trial.Setup) (*trial.Measurement, error) {
	cfg.Mock, cfg.Warmup = cmp.Or(cfg.Mock, r.mock()), cmp.Or(cfg.Warmup, r.Warmup)
	cfg.Duration = cmp.Or(cfg.Duration, r.Duration)
	return r.stage.Run(ctx, cfg)
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

// addObjects adds the objects that the load generators report.
func (o *outcome) addObjects(m *trial.Measurement) {
	var received, corrupt, packets, disordered uint64
	for _, host := range m.Received {
		for _, r := range host {
			received += r.Objects
			corrupt += r.Corrupt
			packets += r.Packets
			disordered += r.Disordered
		}
	}
	o.Metrics["rtp.disordered"] = float64(disordered)
	o.Metrics["rtp.lost"] = float64(m.Published.Packets)*float64(m.Sessions) - float64(packets)
	o.Metrics["lost"] = float64(m.Published.Objects)*float64(m.Sessions) - float64(received)
	o.Metrics["corrupt"] = float64(corrupt)
	if m.Published.Failed > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%d objects could not be sent to the relay", m.Published.Failed))
	}
}
