package rtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/rtt/attach"
	"sluice/rtt/bpf"
	"sluice/rtt/groups"
	"sluice/rtt/kernel"
	"sluice/rtt/report"
)

// flushInterval is the longest time that an event waits in a CPU's batch, and then again in the Sink.
const flushInterval = 100 * time.Millisecond

// A Monitor measures the traffic of some interfaces.
type Monitor struct {
	cfg      MonitorConfig
	kernel   *kernel.Programs
	attached *attach.Links
	locals   io.Closer
	ring     *kernel.Ring
	clock    *wallClock
	totals   *kernel.Aggregator // nil: nothing is aggregated
	decode   *kernel.Decoder
}

// New loads the programs and attaches them to the interfaces, which are looked up in the network namespace of the
// calling thread.
func New(cfg MonitorConfig) (*Monitor, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	devices, err := attach.FindDevices(cfg.Interfaces)
	if err != nil {
		return nil, err
	}
	m := &Monitor{cfg: cfg, clock: newWallClock()}
	m.decode = &kernel.Decoder{Wall: m.clock.time, Interfaces: interfaceNames(cfg, devices), Sink: cfg.Sink}
	if err := m.start(devices); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// interfaceNames returns the interface names that reports contain: none if there is only one observer.
func interfaceNames(cfg MonitorConfig, devices []attach.Device) map[uint32]string {
	if len(devices) < 2 || cfg.MergeInterfaces {
		return nil
	}
	return deviceNames(devices)
}

func deviceNames(devices []attach.Device) map[uint32]string {
	names := make(map[uint32]string)
	for _, d := range devices {
		names[uint32(d.Index)] = d.Name
	}
	return names
}

// start attaches last: everything is then ready for the first packet.
func (m *Monitor) start(devices []attach.Device) (err error) {
	programs := attach.ProgramNames(m.cfg.Hook, devices)
	if m.kernel, err = kernel.Load(m.cfg.settings(), m.cfg.limits(), programs); err != nil {
		return err
	}
	if m.ring, err = kernel.NewRing(m.kernel.Maps[bpf.MonitorMapEvents]); err != nil {
		return err
	}
	if m.cfg.Aggregate > 0 {
		if m.totals, err = m.cfg.newAggregator(m.kernel, deviceNames(devices)); err != nil {
			return err
		}
	}
	if !m.cfg.IncludeLocal {
		if m.locals, err = followLocalAddresses(m.kernel.Maps[bpf.MonitorMapLocalAddresses], m.cfg.Logger); err != nil {
			return err
		}
	}
	m.attached, err = attach.New(m.kernel.Programs, m.cfg.Hook, m.cfg.XDPMode, devices)
	if err == nil && m.cfg.Promiscuous {
		err = m.attached.Promiscuous()
	}
	return err
}

// HasFilters reports whether Close needs the privilege to change qdiscs: see attach.Links.
func (m *Monitor) HasFilters() bool { return m.attached.Filters() }

// Close detaches the programs and frees their resources.
func (m *Monitor) Close() error {
	var errs []error
	if m.attached != nil {
		errs = append(errs, m.attached.Close())
	}
	if m.locals != nil {
		errs = append(errs, m.locals.Close())
	}
	if m.ring != nil {
		errs = append(errs, m.ring.Close())
	}
	if m.kernel != nil {
		m.kernel.Close()
	}
	return errors.Join(errs...)
}

// Run reports until the context ends or no interface is left, and then the rest. It returns an error if the Sink does,
// or if no interface is left.
func (m *Monitor) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	expired := make(chan uint64, 1)
	g.Go(func() error { return m.work(ctx, expired) })
	g.Go(func() error { return m.cleanUp(expired) })
	var watching error
	g.Go(func() error {
		watching = m.attached.Watch(ctx, m.cfg.Logger)
		return watching
	})
	err := g.Wait()
	switch {
	case errors.Is(err, context.Canceled):
		return m.finish()
	case errors.Is(err, watching): // the Sink has returned no error
		return errors.Join(err, m.finish())
	}
	return err
}

// finish detaches the programs and reports the rest.
func (m *Monitor) finish() error {
	if err := m.attached.Close(); err != nil {
		return err
	}
	if err := m.kernel.Flush(); err != nil {
		return err
	}
	if err := m.read(); err != nil || m.totals == nil {
		return err
	}
	return m.reportInterval(func() {})
}

// Counters reads the counters. Traffic is counted only with Config.CountTraffic or Config.Aggregate.
func (m *Monitor) Counters() (report.Counters, error) { return kernel.ReadCounters(m.kernel.Monitor) }

// Flows reads the flow table. A flow has one entry for each direction in which a packet was answered or waits for its
// reply.
func (m *Monitor) Flows() ([]report.FlowState, error) { return m.decode.Flows(m.kernel.Monitor) }

// Regroup replaces Config.Groups, which must not have been nil. It may be called on any goroutine.
func (m *Monitor) Regroup(t groups.Table) error { return m.totals.Regroup(t) }

// settle is how long Turn waits for programs that were running when a period ended. They take microseconds.
const settle = 5 * time.Millisecond

func (m *Monitor) reportInterval(settle func()) error {
	i, err := m.totals.Turn(time.Now(), settle)
	if err != nil {
		return err
	}
	return flushed(m.cfg.Sink.Interval(i), m.cfg.Sink.Flush)
}

// read passes the events that are in the ring to the Sink.
func (m *Monitor) read() error {
	var refused error
	err := m.ring.Read(func(events []byte) error {
		refused = m.decode.Decode(events)
		return refused
	})
	if refused == nil && err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return flushed(refused, m.cfg.Sink.Flush)
}

// duties returns the work at intervals: take events, end intervals of aggregation, follow the wall clock, report
// losses, clean up tables. Batches are read at intervals, with the ring: a process that waits for each batch wakes up
// too often.
func (m *Monitor) duties(losses *lossReport, expired chan<- uint64) duties {
	d := duties{{every: time.Second, do: func() error {
		m.clock.sync()
		return losses.report()
	}}}
	if m.cfg.events() {
		d = append(d, duty{every: flushInterval, do: m.kernel.Flush})
	}
	if m.totals != nil {
		d = append(d, duty{every: m.cfg.Aggregate, do: func() error {
			return m.reportInterval(func() { time.Sleep(settle) })
		}})
	}
	if m.cfg.CleanupInterval > 0 {
		d = append(d, duty{every: m.cfg.CleanupInterval, do: func() error { return m.lookForExpired(expired) }})
	}
	return d
}

// work does the duties, and takes events also when the ring fills up.
func (m *Monitor) work(ctx context.Context, expired chan<- uint64) error {
	defer close(expired)
	defer context.AfterFunc(ctx, func() { _ = m.ring.Interrupt() })()
	losses := newLossReport(m.cfg.Logger, m.kernel.Counters)
	duties := m.duties(losses, expired)
	duties.begin(time.Now())
	if m.totals != nil {
		m.totals.Begin(time.Now())
	}
	for {
		if err := m.ring.SetDeadline(duties.next()); err != nil {
			return err
		}
		// After the deadline was set, which could have taken the place of the interrupt's.
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), losses.report())
		}
		if err := m.ring.Wait(); err != nil {
			return err
		}
		if err := errors.Join(duties.do(time.Now()), m.read()); err != nil {
			return err
		}
	}
}

// lookForExpired lets cleanUp begin, unless it is at work already.
func (m *Monitor) lookForExpired(expired chan<- uint64) error {
	now := monotonic()
	due, err := m.kernel.Due(now)
	if err != nil || !due {
		return err
	}
	select {
	case expired <- now:
	default:
	}
	return nil
}

// cleanUp removes entries that have timed out, whenever it is told to. For large tables that takes seconds, in which
// events go on.
func (m *Monitor) cleanUp(expired <-chan uint64) error {
	for now := range expired {
		if err := m.kernel.CleanUp(now); err != nil {
			return err
		}
	}
	return nil
}

// flushed flushes the Sink unless it has returned an error before.
func flushed(err error, flush func() error) error {
	if err == nil {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}
