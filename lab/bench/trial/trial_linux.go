package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/ebpf"

	"sluice/lab/bench/broker"
	"sluice/lab/bench/load"
	"sluice/lab/bench/procfs"
	"sluice/lab/bench/softirq"
	"sluice/lab/bench/syscalls"
	"sluice/lab/bench/system"
	"sluice/lab/bench/video"
)

// Setup is a load for one relay.
type Setup struct {
	System system.Spec
	RTSP   bool // clients use RTSP, with RTP by UDP
	Relays int  // in a chain: the publisher is at the first, subscribers are at the last; default: 1
	Mock   video.Mock
	Audio  bool // publish mock audio beside the video
	// Ladders is for how many hosts with subscribers, from the first, the relay chooses among several renditions.
	Ladders  int
	Sessions []int // at each host for subscribers, from the first
	// Participants is how many of these hosts publish the video, and watch all others, instead: a conference.
	Participants int
	// Clients publish and play in place of the load generators' own ones, and get the video from them as MP4 with
	// this init segment. They have no Audio, Ladders or Record.
	Clients *system.Clients
	Init    []byte
	Record  bool // all arrivals at the first session of each host
	Idle    bool // measure the machine before media flows, too
	Hog     bool // keep all processors busy
	// CutByHosts is whether the hosts of a lab cut the bursts of senders that use UDP GSO, and not their devices.
	CutByHosts bool
	// Bystander pings the relay's host through the processor that handles the publisher's packets.
	Bystander bool
	Warmup    time.Duration // before the measured period
	Duration  time.Duration // of the measured period
	Syscalls  bool          // count the relay's
	Profile   bool          // ask the relay for a profile, if it is Sluice
	// During is called at the start of the measured period and may take as long as this. It may be nil.
	During func(context.Context) error
}

// mediaPort returns the UDP port at which relays have media.
func (s *Setup) mediaPort() uint16 {
	if s.RTSP {
		return system.RTPPort
	}
	return system.Port
}

// Trial is a relay under load.
type Trial struct {
	Setup
	stage       *Stage
	relays      []*process // in the order of the media's way
	softirq     *softirq.Watch
	recorders   []ebpf.ProgramID // that run in the relay's time
	publisher   *process
	subscribers []*process
	hog         *process // nil if there is none, as bystander
	bystander   *process
	peer        string        // the implementation that the relay names
	before      procfs.Memory // of the relay, before there are subscribers
}

const (
	// IdlePeriod is how long the machine is measured with all sessions set up and no media.
	IdlePeriod = time.Second
	// setUpLimit is how long to wait for a load generator to be set up. The generator gives up earlier, with a reason.
	setUpLimit = load.SetUpTime + 15*time.Second
	// reportLimit is how long to wait for the report of a load generator.
	reportLimit = load.Stragglers + 15*time.Second
)

// startFirst starts the first relay. When it has ended, it calls cancel.
func (t *Trial) startFirst(ctx context.Context, cancel func(error)) (err error) {
	if t.softirq, err = softirq.Begin(t.stage.site.drivers()); err != nil {
		return err
	}
	if err := t.stage.site.eachNamespace(t.softirq.AddNamespace); err != nil {
		return err
	}
	return t.startRelay(ctx, 0, cancel)
}

// furtherPause is how long a relay has until the next one of a chain dials it, and the last one until it has
// subscribers. Some relays are slow to dial again, or refuse a namespace that is not announced yet.
const furtherPause = 500 * time.Millisecond

// startFurther starts the other relays of a chain.
func (t *Trial) startFurther(ctx context.Context, cancel func(error)) error {
	for i := 1; i < t.Relays; i++ {
		if err := t.startRelay(ctx, i, cancel); err != nil {
			return err
		}
		if err := Sleep(ctx, furtherPause); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trial) startRelay(ctx context.Context, number int, cancel func(error)) error {
	dir, err := os.MkdirTemp(t.stage.dir, "run-")
	if err != nil {
		return err
	}
	place := t.stage.place(t.System, number, dir)
	place.RTSP = t.RTSP
	command, err := t.System.Words(place)
	if err != nil {
		return err
	}
	if err := t.System.WriteFiles(place); err != nil {
		return err
	}
	name := t.System.Name
	if number > 0 {
		name += fmt.Sprintf(" (relay %d)", number+1)
	}
	r, err := t.stage.site.startRelay(ctx, number, name, command)
	if err != nil {
		return err
	}
	t.relays = append(t.relays, r)
	go func() {
		<-r.Done()
		cancel(r.Ended())
	}()
	return t.softirq.AddProcess(r.PID(), softirq.Relay)
}

// memory returns the memory of the first relay.
func (t *Trial) memory() (procfs.Memory, error) {
	m, err := procfs.ReadMemory(t.relays[0].PID())
	if err != nil {
		err = t.relays[0].Failure(err)
	}
	return m, err
}

// setUp starts the publisher, then the further relays of a chain, then the subscribers, and waits until all are ready.
func (t *Trial) setUp(ctx context.Context, cancel func(error)) (err error) {
	if t.Participants > 0 {
		return t.confer(ctx)
	}
	s, at := t.stage.site, generatorHost{role: broker.Publisher, prefix: niceness(publisherNice)}
	if t.Bystander {
		at.prefix = slices.Concat(pinned, at.prefix)
	}
	cfg := load.GeneratorConfig{Publish: true, URL: t.url(s.address(at)), Mock: t.Mock, Audio: t.Audio}
	cfg.Ladder = t.Ladders > 0
	if t.publisher, err = t.startGenerator(ctx, at, "publisher", cfg); err != nil {
		return err
	}
	ready, err := t.publisher.await(ctx, setUpLimit)
	if err != nil {
		return err
	}
	t.peer = ready.Peer
	if t.before, err = t.memory(); err != nil {
		return err
	}
	if err := t.startFurther(ctx, cancel); err != nil {
		return err
	}
	if err := t.subscribe(ctx); err != nil {
		return err
	}
	return t.startBystander(ctx)
}

// url returns where clients reach the relay at an address.
func (s *Setup) url(address string) string {
	if s.RTSP {
		return "rtsp://" + net.JoinHostPort(address, strconv.Itoa(system.RTSPPort))
	}
	return relayURL(address)
}

// startGenerator starts a load generator of the build that belongs to the system.
func (t *Trial) startGenerator(
	ctx context.Context, at generatorHost, name string, cfg load.GeneratorConfig,
) (*process, error) {
	programs := t.stage.programsFor(t.System)
	at.program = programs.Generator
	if c := t.Clients; c != nil {
		command := c.Player
		if cfg.Publish {
			command = c.Publisher
		}
		var err error
		if cfg.Program, err = c.Words(command, cfg.URL, load.Namespace, programs.Sluice); err != nil {
			return nil, err
		}
		cfg.Init = t.Init
	}
	p, err := t.stage.site.startGenerator(ctx, at, name, cfg)
	if err != nil || p.Cmd == nil {
		return p, err
	}
	switch {
	case cfg.Publish && len(cfg.Others) == 0:
		err = t.softirq.AddProcess(p.PID(), softirq.Publisher)
	case cfg.Sessions > 0 || cfg.Publish:
		err = t.softirq.AddProcess(p.PID(), softirq.Subscribers)
	}
	return p, err
}

func (t *Trial) subscribe(ctx context.Context) error {
	s, nice := t.stage.site, subscriberNice
	if t.Hog {
		nice = 0
	}
	for i, n := range t.Sessions {
		at := generatorHost{role: broker.Subscribers, number: i, relay: t.Relays - 1, prefix: niceness(nice)}
		cfg := load.GeneratorConfig{
			URL: t.url(s.address(at)), Mock: t.Mock, Audio: t.Audio, Sessions: n, Record: t.Record,
			Ladder: i < t.Ladders,
		}
		p, err := t.startGenerator(ctx, at, fmt.Sprintf("sub%d", i+1), cfg)
		if err != nil {
			return err
		}
		t.subscribers = append(t.subscribers, p)
	}
	return awaitAll(ctx, t.subscribers)
}

// measure publishes, measures, and collects the reports of the load generators.
func (t *Trial) measure(ctx context.Context) (*Measurement, error) {
	m := &Measurement{Peer: t.peer, Before: t.before}
	idle := 0.
	if t.Idle {
		var err error
		if idle, err = t.measureIdle(ctx, m); err != nil {
			return nil, err
		}
	}
	if t.Hog {
		if err := t.startHog(ctx); err != nil {
			return nil, err
		}
	}
	capture, err := t.stage.site.capture(t.Relays)
	if err != nil {
		return nil, err
	}
	t.recorders = capture.AtHosts()
	err = t.flow(ctx, m)
	packets, lost := capture.Stop()
	if err := errors.Join(err, lost); err != nil {
		return nil, err
	}
	for _, p := range packets {
		if p.Time >= m.Begin && p.Time < m.Begin+m.Period && isMedia(p, t.mediaPort()) {
			m.Packets = append(m.Packets, p)
		}
	}
	m.Usage.Idle, m.Usage.Packets = idle, countPackets(m.Packets, t.Relays)
	return m, t.collect(ctx, m)
}

// flow starts the publisher, and measures a period of the flow of media.
func (t *Trial) flow(ctx context.Context, m *Measurement) error {
	if err := tellAll(t.publishers(), load.Go); err != nil {
		return err
	}
	if err := Sleep(ctx, t.Warmup); err != nil {
		return err
	}
	before, err := t.packetCounts()
	if err != nil {
		return err
	}
	if err := t.period(ctx, m); err != nil {
		return err
	}
	after, err := t.packetCounts()
	if err != nil {
		return err
	}
	m.KernelPackets, m.UserPackets = after.kernel-before.kernel, after.user-before.user
	m.Memory, err = t.memory()
	return err
}

// period is the measured period of flow.
func (t *Trial) period(ctx context.Context, m *Measurement) error {
	first, err := t.sample()
	if err != nil {
		return err
	}
	var counter *syscalls.Counter
	if t.Syscalls {
		if counter, err = syscalls.Count(t.relays[0].PID()); err != nil {
			return err
		}
		defer counter.Close()
	}
	stop := t.startTimeline()
	m.Pinged, err = t.pinging(ctx, func() error {
		if t.During != nil {
			if err := t.During(ctx); err != nil {
				return err
			}
		}
		if t.Profile {
			if m.Functions, err = profileFor(ctx, t.Duration, t.stage.site, t.System.Metrics); err != nil {
				return err
			}
		}
		return Sleep(ctx, t.Duration-(load.Monotonic()-first.at))
	})
	line := stop()
	if err != nil {
		return err
	}
	if counter != nil {
		if m.Syscalls, err = counter.Stop(); err != nil {
			return err
		}
	}
	last, err := t.sample()
	if err != nil {
		return err
	}
	m.Usage = t.usage(first, last)
	before := first.moment
	for _, at := range append(line, last.moment) {
		m.Timeline = append(m.Timeline, between(before, at, last.held, t.recorders))
		before = at
	}
	return nil
}

// collect waits for the reports of the load generators.
func (t *Trial) collect(ctx context.Context, m *Measurement) error {
	if err := tellAll(t.publishers(), load.Stop); err != nil {
		return err
	}
	most := uint64(0) // objects of one publisher
	m.Publishers = len(t.publishers())
	for _, p := range t.publishers() {
		e, err := p.await(ctx, reportLimit)
		if err != nil {
			return err
		}
		if e.Published == nil {
			return p.Failure(errors.New("it did not report what it published"))
		}
		m.Published.Add(e.Published)
		m.LateP99 = max(m.LateP99, time.Duration(e.Published.Late.Quantile(.99)*float64(time.Millisecond)))
		most = max(most, e.Published.Objects)
	}
	if err := tellAll(t.subscribers, fmt.Sprintf("%s %d", load.Stop, most)); err != nil {
		return err
	}
	for _, p := range t.subscribers {
		e, err := p.await(ctx, reportLimit)
		if err != nil {
			return err
		}
		m.Received = append(m.Received, e.Received)
		m.Sessions += len(e.Received)
	}
	return tellAll(t.publishers(), load.Stop)
}

// measureIdle returns how many cores are busy before media flows.
func (t *Trial) measureIdle(ctx context.Context, m *Measurement) (float64, error) {
	first, err := t.sample()
	if err != nil {
		return 0, err
	}
	wait := func() error { return Sleep(ctx, IdlePeriod) }
	if m.IdlePinged, err = t.pinging(ctx, wait); err != nil {
		return 0, err
	}
	last, err := t.sample()
	if err != nil {
		return 0, err
	}
	u := t.usage(first, last)
	return (u.Busy - u.Others).Seconds() / u.Period.Seconds(), nil
}

// startHog starts the process that competes for the processors, for as long as this trial can last.
func (t *Trial) startHog(ctx context.Context) (err error) {
	limit := t.Warmup + t.Duration + time.Minute
	at := generatorHost{role: broker.Relay}
	t.hog, err = t.startGenerator(ctx, at, "hog", load.GeneratorConfig{Hog: limit})
	return err
}

func (t *Trial) stop() {
	relays := slices.Clone(t.relays)
	slices.Reverse(relays) // the last one drains first: it has no sessions any more
	for _, p := range slices.Concat(t.subscribers, []*process{t.hog, t.bystander, t.publisher}, relays) {
		if p != nil {
			p.stop()
		}
	}
	if t.softirq != nil {
		_ = t.softirq.Close() // all of it has been read
	}
}

// publishers returns the load generators that publish.
func (t *Trial) publishers() []*process {
	if t.Participants > 0 {
		return t.subscribers
	}
	return []*process{t.publisher}
}

// confer starts the participants in a conference, and waits until all of them watch all others.
func (t *Trial) confer(ctx context.Context) (err error) {
	var namespaces []string
	for i := range t.Participants {
		namespaces = append(namespaces, fmt.Sprintf("bench/participant%d", i+1))
	}
	for i, own := range namespaces {
		at := generatorHost{role: broker.Subscribers, number: i, prefix: niceness(publisherNice)}
		p, err := t.startGenerator(ctx, at, fmt.Sprintf("participant%d", i+1), load.GeneratorConfig{
			Publish: true, URL: t.url(t.stage.site.address(at)), Mock: t.Mock, Namespace: own,
			Others: slices.DeleteFunc(slices.Clone(namespaces), func(n string) bool { return n == own }),
		})
		if err != nil {
			return err
		}
		t.subscribers = append(t.subscribers, p)
		ready, err := p.await(ctx, setUpLimit)
		if err != nil {
			return err
		}
		t.peer = ready.Peer
	}
	if t.before, err = t.memory(); err != nil {
		return err
	}
	if err := tellAll(t.subscribers, load.Join); err != nil {
		return err
	}
	return awaitAll(ctx, t.subscribers)
}

// Sleep waits for a duration. It returns early, with the cause, when the context is done.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
