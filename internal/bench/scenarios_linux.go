package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/lab"
)

// Loads of Params.
const (
	loadIdle = "idle"
	loadHog  = "hog"
)

// hogSubscribers is the largest fan-out with a hog: beyond it, what is measured is how the load generators cope.
const hogSubscribers = 50

// plans lists what is to be run.
func (s *stage) plans() []plan {
	var plans []plan
	for _, n := range s.Subscribers {
		plans = append(plans, s.fanout(n, loadIdle, ""))
	}
	for _, n := range s.Subscribers {
		if n <= hogSubscribers {
			plans = append(plans, s.fanout(n, loadHog, ""))
		}
	}
	if s.Clip != "" {
		plans = append(plans, s.fanout(1, loadIdle, s.Clip))
	}
	plans = append(plans, s.syscallPlan(), s.capacityPlan())
	plans = append(plans, s.congestionPlans()...)
	return slices.DeleteFunc(plans, func(p plan) bool { return len(p.kinds) == 0 })
}

// participants are the systems that a plan is for.
func (s *stage) participants(p plan) []Spec {
	return slices.DeleteFunc(slices.Clone(s.Systems), func(spec Spec) bool { return !spec.takesPart(p.kinds) })
}

// runOverhead is about what the start of a run and the reports at its end take.
const runOverhead = time.Second

// estimate is how many runs plans have, and about how long they take.
func (s *stage) estimate(plans []plan) (runs int, total time.Duration) {
	for _, p := range plans {
		n := p.repetitions * len(s.participants(p))
		runs += n
		total += time.Duration(n) * p.length
	}
	return runs, total
}

// wanted returns those of kinds that are to be measured.
func (s *stage) wanted(kinds ...string) []string {
	return slices.DeleteFunc(kinds, func(k string) bool { return !slices.Contains(s.Kinds, k) })
}

func people(subscribers int) string {
	if subscribers == 1 {
		return "1 subscriber"
	}
	return fmt.Sprintf("%d subscribers", subscribers)
}

// fanout is a relay with a number of subscribers: delays, CPU and memory. With a hog, only delays mean something.
func (s *stage) fanout(subscribers int, load, clip string) plan {
	p := plan{
		kinds: s.wanted(KindDelay), name: fmt.Sprintf("%d/%s", subscribers, load), title: fmt.Sprintf("%s, %s", people(subscribers), load),
		params: s.mockParams(subscribers), repetitions: s.Repetitions,
	}
	p.params.Load, p.length = load, s.Warmup+s.Duration+runOverhead
	if load == loadIdle {
		p.kinds, p.length = s.wanted(KindDelay, KindCPU, KindMemory), p.length+idlePeriod
	}
	if clip != "" {
		p.params.Media, p.params.Rate, p.params.FrameRate = s.clipName(), 0, 0
		p.name += "/" + s.clipName()
		p.title += ", " + s.clipName()
	}
	p.run = func(ctx context.Context, s *stage, spec Spec) (*outcome, error) {
		m, err := s.try(ctx, s.trial(spec, trialConfig{sessions: []int{subscribers}, idle: load == loadIdle, hog: load == loadHog, clip: clip}))
		if err != nil {
			return nil, err
		}
		o := m.outcome()
		if load == loadIdle {
			m.addCPU(o)
			o.Unusable = cmp.Or(o.Unusable, m.exhausted())
		}
		d := measureDelays(m.packets, subscribers)
		d.add(o)
		return o, nil
	}
	return p
}

// trial fills in what all runs have in common.
func (s *stage) trial(spec Spec, t trialConfig) trialConfig {
	t.system, t.mock = spec, orDefault(t.mock, s.mock())
	t.warmup, t.duration = orDefault(t.warmup, s.Warmup), orDefault(t.duration, s.Duration)
	return t
}

// outcome is what every trial finds.
func (m *measurement) outcome() *outcome {
	o := newOutcome()
	o.peer = m.peer
	m.usage.add(o)
	const mebibyte = 1 << 20
	o.Metrics["memory.resident"] = float64(m.memory.resident) / mebibyte
	o.Metrics["memory.peak"] = float64(m.memory.peak) / mebibyte
	o.Metrics["memory.maps"] = float64(m.maps) / mebibyte
	var received, corrupt uint64
	for _, host := range m.received {
		for _, r := range host {
			received += r.Objects
			corrupt += r.Corrupt
		}
	}
	o.Metrics["lost"] = float64(m.published.Objects)*float64(m.subscribers) - float64(received)
	o.Metrics["corrupt"] = float64(corrupt)
	o.Unusable = m.bottleneck()
	if m.published.Failed > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%d objects could not be sent to the relay", m.published.Failed))
	}
	return o
}

// syscallSubscribers is the fan-out at which system calls are counted.
const syscallSubscribers = 10

func (s *stage) syscallPlan() plan {
	return plan{
		kinds: s.wanted(KindSyscalls), name: fmt.Sprint(syscallSubscribers), title: fmt.Sprintf("system calls, %d subscribers", syscallSubscribers),
		params: s.mockParams(syscallSubscribers), repetitions: s.Repetitions, length: s.Warmup + s.Duration + runOverhead, run: runSyscalls,
	}
}

func runSyscalls(ctx context.Context, s *stage, spec Spec) (*outcome, error) {
	var counter *syscallCounter
	defer func() {
		if counter != nil {
			counter.close()
		}
	}()
	m, err := s.try(ctx, s.trial(spec, trialConfig{sessions: []int{syscallSubscribers}, during: func(_ context.Context, t *trial) (err error) {
		counter, err = countSyscalls(t.relay.cmd.Process.Pid)
		return err
	}, after: func() (err error) {
		return counter.stop()
	}}))
	if err != nil {
		return nil, err
	}
	o := m.outcome()
	const video = 30.0 // seconds, so that runs of any length compare
	per30 := video / m.period.Seconds()
	calls := make(map[string]float64)
	for name, n := range counter.total {
		calls[name] = float64(n) * per30
		o.Metrics["syscalls.total"] += float64(n) * per30
		o.Metrics["syscalls.packet"] += float64(n) / float64(max(m.usage.packets, 1))
	}
	o.Breakdowns["syscalls"] = calls
	return o, nil
}

// bottlenecks are rates as parts of the media's, and how long they last, as parts of a run.
type bottleneck struct {
	name  string
	rates []float64
}

// series is the rate of the link over a run, Mbit/s.
func (b bottleneck) series(mediaRate float64, period time.Duration) Series {
	var out Series
	each := period.Seconds() / float64(len(b.rates))
	for i, part := range b.rates {
		out.Time = append(out.Time, float64(i)*each, float64(i+1)*each)
		out.Value = append(out.Value, part*mediaRate/1e6, part*mediaRate/1e6)
	}
	return out
}

func (s *stage) congestionPlans() (plans []plan) {
	kinds := []bottleneck{{"constant", []float64{.6}}, {"step", []float64{1.5, .5, 1.5}}}
	if s.Brief {
		kinds = kinds[:1]
	}
	for _, b := range kinds {
		var percent []string
		for _, r := range b.rates {
			percent = append(percent, fmt.Sprintf("%g%%", 100*r))
		}
		p := plan{
			kinds: s.wanted(KindCongestion), name: b.name, title: "a bottleneck of " + strings.Join(percent, ", then ") + " of the media's rate",
			params: s.mockParams(2), repetitions: s.Repetitions,
			run: func(ctx context.Context, s *stage, spec Spec) (*outcome, error) { return s.runCongestion(ctx, spec, b) },
		}
		period := s.congestionPeriod(b)
		p.params.Link, p.params.Duration, p.length = b.name, period.Seconds(), s.Warmup+period+runOverhead
		plans = append(plans, p)
	}
	return plans
}

// congestionPeriod lets each rate last as long as a run, and at least for several groups.
func (s *stage) congestionPeriod(b bottleneck) time.Duration {
	return time.Duration(len(b.rates)) * max(s.Duration, 6*time.Second) * 2 / time.Duration(len(b.rates)+1)
}

// runCongestion gives one subscriber a bottleneck and its neighbour none.
func (s *stage) runCongestion(ctx context.Context, spec Spec, b bottleneck) (*outcome, error) {
	mock := s.mock()
	mock.Layers = true
	link := s.lab.Subscribers[0].Devices[0].Link
	set := func(part float64) error {
		return link.Set(lab.ToHost, lab.Conditions{Rate: lab.Rate(part * mock.Rate)})
	}
	if err := set(b.rates[0]); err != nil {
		return nil, err
	}
	defer link.Set(lab.ToHost, lab.Conditions{})
	period := s.congestionPeriod(b)
	m, err := s.try(ctx, s.trial(spec, trialConfig{mock: mock, sessions: []int{1, 1}, record: true, duration: period, during: func(ctx context.Context, t *trial) error {
		for _, rate := range b.rates[1:] {
			if err := t.sleep(ctx, period/time.Duration(len(b.rates))); err != nil {
				return err
			}
			if err := set(rate); err != nil {
				return err
			}
		}
		return nil
	}}))
	if err != nil {
		return nil, err
	}
	o := m.outcome()
	from, to := expectedBetween(mock, s.Warmup, s.Warmup+period)
	narrow := play(mock, m.received[0][0].Arrivals, from, min(to, m.published.Objects))
	wide := play(mock, m.received[1][0].Arrivals, from, min(to, m.published.Objects))
	o.Metrics["goodput"], o.Metrics["neighbour.goodput"] = narrow.goodput, wide.goodput
	o.Metrics["playable"], o.Metrics["keys"] = 100*narrow.playable, 100*narrow.keys
	o.Metrics["stalls"], o.Metrics["stalled"] = float64(narrow.stalls), narrow.stalled.Seconds()
	o.Metrics["corrupt"] = float64(m.received[0][0].Corrupt + m.received[1][0].Corrupt)
	o.values["age"] = narrow.ages
	addQuantiles(o.Metrics, "age", narrow.ages)
	o.Series["goodput"], o.Series["neighbour.goodput"], o.Series["age"] = narrow.goodputs, wide.goodputs, narrow.age
	o.Series["link"] = b.series(mock.Rate, period)
	return o, nil
}
