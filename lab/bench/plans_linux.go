package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/lab/bench/load"
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

// oneTrial returns a plan whose runs are one trial each.
func (r *runner) oneTrial(
	kinds []string, name, title string, setup trial.Setup, add func(*outcome, *trial.Measurement),
) plan {
	p := plan{
		kinds: r.wanted(kinds...), name: name, title: title, params: r.mockParams(setup.Sessions[0]),
		repetitions: r.Repetitions, setup: setup, add: add,
	}
	p.length = r.Warmup + cmp.Or(setup.Duration, r.Duration) + time.Duration(max(setup.Relays, 1))*runOverhead
	if setup.Idle {
		p.length += trial.IdlePeriod
	}
	return p
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
	p := r.oneTrial(kinds, fmt.Sprintf("%d/%s", subscribers, load), title, setup,
		func(o *outcome, m *trial.Measurement) {
			if setup.Idle {
				o.addCPU(&m.Usage)
				o.addTimeline(m)
			}
			o.addDelays(measureDelays(m))
		})
	if p.params.Load = load; setup.RTSP {
		p.params.Cipher = "" // RTP is in the clear
	}
	return p
}

// syscallPeriod is how long system calls are counted.
const syscallPeriod = 30 * time.Second

// syscallPlan counts the system calls of a relay by name.
func (r *runner) syscallPlan(subscribers int) plan {
	period := syscallPeriod
	if r.Brief {
		period = r.Duration
	}
	p := r.oneTrial([]string{result.KindSyscalls}, fmt.Sprint(subscribers),
		"system calls, "+subscriberCount(subscribers),
		trial.Setup{Sessions: []int{subscribers}, Duration: period, Syscalls: true},
		func(o *outcome, m *trial.Measurement) { o.addSyscalls(m.Syscalls, &m.Usage) })
	p.params.Duration = period.Seconds()
	return p
}

// bystanderPlan measures how long others wait for the processor that handles the publisher's packets.
func (r *runner) bystanderPlan(subscribers int) plan {
	return r.oneTrial([]string{result.KindBystander}, fmt.Sprint(subscribers),
		"a bystander's ping, "+subscriberCount(subscribers),
		trial.Setup{Sessions: []int{subscribers}, Idle: true, Bystander: true},
		func(o *outcome, m *trial.Measurement) { o.addPings(m.Pinged, m.IdlePinged) })
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

// addSyscalls adds the system calls that the relay made in a period.
func (o *outcome) addSyscalls(total map[string]uint64, u *trial.Usage) {
	per30 := syscallPeriod.Seconds() / u.Period.Seconds() // so that brief runs can be compared, too
	calls := make(map[string]float64)
	for name, n := range total {
		calls[name] = float64(n) * per30
		o.Metrics["syscalls.total"] += float64(n) * per30
		o.Metrics["syscalls.frame"] += float64(n) / float64(max(u.Delivered, 1))
		o.Metrics["syscalls.packet"] += float64(n) / float64(max(u.Packets, 1))
	}
	o.Breakdowns["syscalls"] = calls
}

// addPings adds the pings of a bystander, and those before media flowed.
func (o *outcome) addPings(busy, idle load.Pinged) {
	o.addValues("ping", busy.Delays)
	o.addValues("ping.idle", idle.Delays)
	o.Metrics["ping.lost"] = float64(busy.Lost + idle.Lost)
}
