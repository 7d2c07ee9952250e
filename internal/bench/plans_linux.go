package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/internal/bench/result"
	"sluice/internal/bench/system"
	"sluice/internal/bench/trial"
)

// Loads of result.Params.
const (
	loadIdle = "idle"
	loadHog  = "hog"
)

// profilePeriod is the length of a profile, after the measured period.
const profilePeriod = 3 * time.Second

// hogSubscribers is the largest fan-out with a hog. With more subscribers, the result depends on the load generators.
const hogSubscribers = 50

// plans returns the plans to run.
func (r *runner) plans() []plan {
	var plans []plan
	for _, v := range r.variants() {
		for _, n := range r.Subscribers {
			plans = append(plans, r.fanoutPlan(n, loadIdle, "", v))
		}
	}
	usual := r.variants()[0]
	for _, n := range r.Subscribers {
		if n <= hogSubscribers {
			plans = append(plans, r.fanoutPlan(n, loadHog, "", usual))
		}
	}
	if r.Clip != "" {
		plans = append(plans, r.fanoutPlan(1, loadIdle, r.Clip, usual))
	}
	for _, n := range r.Subscribers {
		plans = append(plans, r.syscallPlan(n))
	}
	plans = append(plans, r.capacityPlan(result.KindCapacity), r.congestionPlan(), r.ladderPlan(),
		r.bystanderPlan(slices.Max(r.Subscribers)))
	plans = slices.Concat(plans, r.chainPlans(), r.rtspPlans())
	for i := range plans {
		plans[i].nameVariant()
	}
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

// fanoutPlan is a relay with a number of subscribers: delays, CPU and memory. With a hog, only delays have a meaning.
func (r *runner) fanoutPlan(subscribers int, load, clip string, v variant) plan {
	p := plan{
		kinds: r.wanted(result.KindDelay), name: fmt.Sprintf("%d/%s", subscribers, load),
		title: fmt.Sprintf("%s, %s", subscriberCount(subscribers), load), params: r.mockParams(subscribers),
		repetitions: r.Repetitions,
	}
	profile := time.Duration(0)
	p.params.Load, p.length = load, r.Warmup+r.Duration+runOverhead
	p.params.Cipher, p.params.Segmentation = v.cipher, v.segmentation
	if load == loadIdle {
		p.kinds = r.wanted(result.KindDelay, result.KindCPU, result.KindMemory)
		profile = r.profilePeriod(p.kinds)
		p.length += trial.IdlePeriod + profile
	}
	if clip != "" {
		p.params.Media, p.params.Rate, p.params.FrameRate = r.clipName(), 0, 0
		p.name += "/" + r.clipName()
		p.title += ", " + r.clipName()
	}
	p.run = r.fanout(trial.Setup{
		Sessions: []int{subscribers}, Clip: clip, Idle: load == loadIdle, Hog: load == loadHog, Profile: profile,
	}, v)
	return p
}

// fanout returns the runs of a load with sessions at one host: delays and memory, and CPU if the machine is measured
// without media, too.
func (r *runner) fanout(setup trial.Setup, v variant) func(context.Context, system.Spec) (*outcome, error) {
	return func(ctx context.Context, spec system.Spec) (*outcome, error) {
		cfg := setup
		cfg.System = spec
		m, err := r.tryAs(ctx, v, cfg)
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

// profilePeriod returns how long relays are profiled under a load that yields some kinds of scenarios.
func (r *runner) profilePeriod(kinds []string) time.Duration {
	if r.Profiles == "" || !slices.Contains(kinds, result.KindCPU) {
		return 0
	}
	return profilePeriod
}

// try runs a trial of the first variant.
func (r *runner) try(ctx context.Context, cfg trial.Setup) (*trial.Measurement, error) {
	return r.tryAs(ctx, r.variants()[0], cfg)
}

// tryAs runs a trial of a variant. A setting that cfg lacks is the same as in all runs.
func (r *runner) tryAs(ctx context.Context, v variant, cfg trial.Setup) (*trial.Measurement, error) {
	cfg.ChaCha20, cfg.Segmentation = v.cipher == result.CipherChaCha20, v.segmentation == result.ByDevices
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
