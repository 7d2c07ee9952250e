package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/lab"
)

// trialConfig is a load for one relay.
type trialConfig struct {
	system   Spec
	mock     Mock
	clip     string // instead of mock video
	sessions []int  // at each host for subscribers, from the first
	record   bool   // all arrivals at the first session of each host
	idle     bool   // watch the machine before media flows, for the CPU that it takes
	hog      bool
	warmup   time.Duration
	duration time.Duration
	// during is called when the measured period begins, and may take as long as that; after is called at its end. Both may be nil.
	during func(context.Context, *trial) error
	after  func() error
}

// trial is a relay under load.
type trial struct {
	trialConfig
	stage     *stage
	before    map[ebpf.ProgramID]time.Duration // programs that are not the relay's
	relay     *process
	publisher *process
	receivers []*process
	rival     *process // the hog, if there is one
	peer      string
}

// measurement is what a trial found.
type measurement struct {
	usage
	packets   []lab.Packet // in the measured period
	published PublishResult
	received  [][]ReceiveResult // by host
	memory    processMemory     // of the relay
	maps      uint64
	peer      string
}

const (
	// idlePeriod is how long the machine is watched with all sessions set up and no media.
	idlePeriod = time.Second
	// setUpLimit is how long a load generator may take: it gives up before that and says why.
	setUpLimit = loadSetUp + 15*time.Second
	reportTime = stragglers + 15*time.Second
)

// try runs a trial. If the relay ends, so does the trial.
func (s *stage) try(ctx context.Context, cfg trialConfig) (m *measurement, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &trial{trialConfig: cfg, stage: s}
	defer t.stop()
	if err := t.startRelay(ctx); err != nil {
		return nil, err
	}
	go func() {
		<-t.relay.done
		cancel(t.relay.ended())
	}()
	if err = t.setUp(ctx); err == nil {
		m, err = t.measure(ctx)
	}
	if ended := t.relay.ended(); ended != nil {
		return nil, ended // what else failed, failed for that
	}
	return m, err
}

func (t *trial) startRelay(ctx context.Context) error {
	dir, err := os.MkdirTemp(t.stage.dir, "run-")
	if err != nil {
		return err
	}
	command, err := t.stage.command(t.system, dir)
	if err != nil {
		return err
	}
	if t.before, err = programTimes(); err != nil {
		return err
	}
	t.relay, err = start(ctx, t.stage.lab.Relay, t.system.Name, false, command)
	return err
}

func (t *trial) setUp(ctx context.Context) (err error) {
	s := t.stage
	load := LoadConfig{Publish: true, URL: s.url(s.lab.Publisher), Mock: t.mock, Clip: t.clip}
	if t.publisher, err = start(ctx, s.lab.Publisher, "publisher", true, s.loadCommand(load, publisherNice)); err != nil {
		return err
	}
	ready, err := t.publisher.await(ctx, setUpLimit)
	if err != nil {
		return err
	}
	t.peer = ready.Peer
	return t.join(ctx)
}

// join starts the subscribers.
func (t *trial) join(ctx context.Context) error {
	s, nice := t.stage, subscriberNice
	if t.hog {
		nice = 0
	}
	for i, n := range t.sessions {
		host := s.lab.Subscribers[i]
		load := LoadConfig{URL: s.url(host), Mock: t.mock, Clip: t.clip, Sessions: n, Record: t.record}
		p, err := start(ctx, host, host.Name, true, s.loadCommand(load, nice))
		if err != nil {
			return err
		}
		t.receivers = append(t.receivers, p)
	}
	for _, r := range t.receivers {
		if _, err := r.await(ctx, setUpLimit); err != nil {
			return err
		}
	}
	return nil
}

// measure lets media flow.
func (t *trial) measure(ctx context.Context) (*measurement, error) {
	m := &measurement{peer: t.peer}
	idle := 0.
	if t.idle {
		var err error
		if idle, err = t.watchIdle(ctx); err != nil {
			return nil, err
		}
	}
	if t.hog {
		if err := t.startHog(ctx); err != nil {
			return nil, err
		}
	}
	l := t.stage.lab
	capture, err := l.StartCapture(
		lab.Point{Device: l.Relay.Device("up"), Direction: lab.ToHost},
		lab.Point{Device: l.Relay.Device("down"), Direction: lab.FromHost})
	if err != nil {
		return nil, err
	}
	begin, end, err := t.flow(ctx, m)
	packets, lost := capture.Stop()
	if err := errors.Join(err, lost); err != nil {
		return nil, err
	}
	for _, p := range packets {
		if p.Time >= begin && p.Time < end {
			m.packets = append(m.packets, p)
		}
	}
	m.usage.idle, m.usage.packets = idle, countPackets(m.packets)
	return m, t.collect(ctx, m)
}

// flow has the publisher publish, and measures a period of that.
func (t *trial) flow(ctx context.Context, m *measurement) (begin, end time.Duration, err error) {
	if err := t.publisher.tell(commandGo); err != nil {
		return 0, 0, err
	}
	if err := t.sleep(ctx, t.warmup); err != nil {
		return 0, 0, err
	}
	before, err := t.counters()
	if err != nil {
		return 0, 0, err
	}
	begin = now()
	first, err := t.sample()
	if err != nil {
		return 0, 0, err
	}
	if t.during != nil {
		if err := t.during(ctx, t); err != nil {
			return 0, 0, err
		}
	}
	if err := t.sleep(ctx, t.duration-(now()-begin)); err != nil {
		return 0, 0, err
	}
	end = now()
	if t.after != nil {
		if err := t.after(); err != nil {
			return 0, 0, err
		}
	}
	last, err := t.sample()
	if err != nil {
		return 0, 0, err
	}
	m.usage = t.usage(first, last)
	after, err := t.counters()
	if err != nil {
		return 0, 0, err
	}
	m.kernelPackets, m.userPackets = after[kernelPackets]-before[kernelPackets], after[userPackets]-before[userPackets]
	m.memory, m.maps, err = t.relay.memory()
	return begin, end, err
}

// collect gets the reports of the load generators.
func (t *trial) collect(ctx context.Context, m *measurement) error {
	if err := t.publisher.tell(commandStop); err != nil {
		return err
	}
	e, err := t.publisher.await(ctx, reportTime)
	if err != nil {
		return err
	}
	if e.Published == nil {
		return t.publisher.failure(errors.New("has not reported what it published"))
	}
	m.published = *e.Published
	m.lateP99 = time.Duration(m.published.Late.quantile(.99) * float64(time.Millisecond))
	for _, r := range t.receivers {
		if err := r.tell(fmt.Sprintf("%s %d", commandStop, m.published.Objects)); err != nil {
			return err
		}
	}
	for _, r := range t.receivers {
		e, err := r.await(ctx, reportTime)
		if err != nil {
			return err
		}
		m.received = append(m.received, e.Received)
		m.subscribers += len(e.Received)
	}
	return t.publisher.tell(commandStop)
}

// watchIdle returns how many cores are busy before media flows.
func (t *trial) watchIdle(ctx context.Context) (float64, error) {
	first, err := t.sample()
	if err != nil {
		return 0, err
	}
	if err := t.sleep(ctx, idlePeriod); err != nil {
		return 0, err
	}
	last, err := t.sample()
	if err != nil {
		return 0, err
	}
	u := t.usage(first, last)
	return (u.busy - u.others).Seconds() / u.period.Seconds(), nil
}

// startHog starts what competes for the processors, for as long as this trial may take.
func (t *trial) startHog(ctx context.Context) (err error) {
	limit := t.warmup + t.duration + time.Minute
	t.rival, err = start(ctx, t.stage.lab.Publisher, "hog", true, t.stage.loadCommand(LoadConfig{Hog: limit}, 0))
	return err
}

func (t *trial) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *trial) stop() {
	for _, p := range append(t.receivers, t.rival, t.publisher, t.relay) {
		if p != nil {
			p.stop()
		}
	}
}

// usage is the difference of two samples.
func (t *trial) usage(a, b sample) usage {
	u := usage{period: b.at.Sub(a.at), cores: runtime.NumCPU(), frameInterval: time.Duration(float64(time.Second) / t.mock.withDefaults().FrameRate)}
	machine := b.machine.minus(a.machine)
	u.busy, u.steal, u.softirq = machine.busy(u.period, u.cores), machine.steal, machine.softirq
	u.relay, u.publisher, u.subs = b.relay.minus(a.relay), b.publisher.minus(a.publisher), b.subs.minus(a.subs)
	u.activity = b.activity.minus(a.activity)
	ours := u.relay.plus(u.publisher).plus(u.subs).plus(b.rival.minus(a.rival))
	u.others = max(0, processesBetween(a.processes, b.processes)-ours.total())
	for id, total := range b.programs {
		if _, other := t.before[id]; other {
			u.lab += total - a.programs[id]
		} else {
			u.ebpf += total - a.programs[id]
		}
	}
	return u
}

// counters reads the counters of a relay that is Sluice. That costs the relay something, so it is done outside of the measured period.
func (t *trial) counters() (map[string]float64, error) {
	if t.system.Metrics == "" {
		return nil, nil
	}
	return scrape(t.stage.lab.Relay, t.system.Metrics)
}
