package rtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"

	"sluice/internal/rtt/bpf"
)

// flushInterval bounds how long an event waits in a CPU's batch, and how long records wait in the sink.
const flushInterval = 100 * time.Millisecond

// A Monitor measures the traffic of some interfaces.
type Monitor struct {
	cfg      Config
	kernel   *kernel
	attached *attachments
	locals   io.Closer
	reader   *ringbuf.Reader
	clock    *wallClock
	totals   *aggregator // nil: nothing is aggregated

	mu     sync.Mutex // guards the sink
	decode *decoder
}

// New loads the programs and attaches them to the interfaces, which are looked up in the network namespace of the
// calling thread.
func New(cfg Config) (*Monitor, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	devices, err := findDevices(cfg.Interfaces)
	if err != nil {
		return nil, err
	}
	m := &Monitor{cfg: cfg, clock: newWallClock()}
	m.decode = &decoder{wall: m.clock.time, interfaces: interfaceNames(cfg, devices), sink: cfg.Sink}
	if err := m.start(devices); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// interfaceNames are those that records name: none if there is but one observer.
func interfaceNames(cfg Config, devices []device) map[uint32]string {
	if len(devices) < 2 || cfg.MergeInterfaces {
		return nil
	}
	names := make(map[uint32]string)
	for _, d := range devices {
		names[uint32(d.index)] = d.name
	}
	return names
}

// start attaches last, so that everything is ready for the first packet.
func (m *Monitor) start(devices []device) (err error) {
	if m.kernel, err = loadKernel(&m.cfg, m.cfg.settings(), programsFor(m.cfg.Hook, devices)); err != nil {
		return err
	}
	if m.reader, err = ringbuf.NewReader(m.kernel.Maps[bpf.MonitorMapEvents]); err != nil {
		return fmt.Errorf("open the event ring: %w", err)
	}
	if m.cfg.Aggregate > 0 {
		if m.totals, err = newAggregator(m.kernel.Monitor, &m.cfg); err != nil {
			return err
		}
	}
	if !m.cfg.IncludeLocal {
		if m.locals, err = followLocalAddresses(m.kernel.Maps[bpf.MonitorMapLocalAddresses], m.cfg.Logger); err != nil {
			return err
		}
	}
	m.attached, err = attach(&m.cfg, m.kernel.Monitor, devices)
	return err
}

// Close detaches the programs and frees what they used.
func (m *Monitor) Close() error {
	var errs []error
	if m.attached != nil {
		errs = append(errs, m.attached.Close())
	}
	if m.locals != nil {
		errs = append(errs, m.locals.Close())
	}
	if m.reader != nil {
		errs = append(errs, m.reader.Close())
	}
	if m.kernel != nil {
		m.kernel.close()
	}
	return errors.Join(errs...)
}

// Run reports until the context ends, and then what was measured until then. It fails when the sink fails or no
// interface is left.
func (m *Monitor) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.read(ctx) })
	g.Go(func() error { return m.maintain(ctx) })
	g.Go(func() error { return m.aggregate(ctx) })
	g.Go(func() error { return m.attached.watch(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return m.finish()
}

// finish detaches, so that nothing more comes, and reports what is left.
func (m *Monitor) finish() error {
	if err := m.attached.Close(); err != nil {
		return err
	}
	if err := m.kernel.flush(); err != nil {
		return err
	}
	if err := m.drain(); err != nil || m.totals == nil {
		return err
	}
	return m.reportInterval(func() {})
}

func (m *Monitor) counters() (bpf.MonitorCounterSet, error) { return m.kernel.Counters() }

// settle is how long a program that runs when a period ends may take to finish.
const settle = 5 * time.Millisecond

// aggregate reports each period as it ends.
func (m *Monitor) aggregate(ctx context.Context) error {
	if m.totals == nil {
		return nil
	}
	m.totals.begin(time.Now())
	t := time.NewTicker(m.cfg.Aggregate)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			if err := m.reportInterval(func() { time.Sleep(settle) }); err != nil {
				return err
			}
		}
	}
}

func (m *Monitor) reportInterval(settle func()) error {
	i, err := m.totals.turn(time.Now(), settle)
	if err != nil {
		return err
	}
	return m.take(func() error { return m.cfg.Sink.Interval(i) }, true)
}

// read hands events to the sink as they come.
func (m *Monitor) read(ctx context.Context) error {
	for ctx.Err() == nil {
		m.reader.SetDeadline(time.Now().Add(flushInterval))
		if err := m.readSome(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// drain is read for what is in the ring already.
func (m *Monitor) drain() error {
	m.reader.SetDeadline(time.Unix(0, 1))
	return m.readSome()
}

// readSome reads until the deadline passes with nothing more in the ring.
func (m *Monitor) readSome() error {
	var record ringbuf.Record
	for {
		if err := m.reader.ReadInto(&record); errors.Is(err, os.ErrDeadlineExceeded) {
			return m.take(func() error { return nil }, true)
		} else if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if err := m.take(func() error { return m.decode.decode(record.RawSample) }, record.Remaining == 0); err != nil {
			return err
		}
	}
}

// take calls the sink.
func (m *Monitor) take(put func() error, flush bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := put()
	if err == nil && flush {
		err = m.cfg.Sink.Flush()
	}
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// maintain does what is due from time to time.
func (m *Monitor) maintain(ctx context.Context) error {
	flush, second := time.NewTicker(flushInterval), time.NewTicker(time.Second)
	defer flush.Stop()
	defer second.Stop()
	cleanup := make(<-chan time.Time)
	if m.cfg.CleanupInterval > 0 {
		t := time.NewTicker(m.cfg.CleanupInterval)
		defer t.Stop()
		cleanup = t.C
	}
	losses := newLossReport(m.cfg.Logger, m.kernel.Counters)
	for {
		var err error
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), losses.report())
		case <-flush.C:
			err = m.kernel.flush()
		case <-second.C:
			m.clock.sync()
			err = losses.report()
		case <-cleanup:
			err = m.kernel.cleanUp()
		}
		if err != nil {
			return err
		}
	}
}

// kernel is the loaded programs with their clean-up.
type kernel struct {
	*bpf.Monitor
	cleanups []*link.Iter
}

// loadKernel loads the programs for packets and those that the Monitor itself runs.
func loadKernel(cfg *Config, s bpf.MonitorSettings, programs []string) (*kernel, error) {
	programs = append(programs, bpf.MonitorProgFlush)
	for _, t := range tables {
		programs = append(programs, t.cleanup)
	}
	m, err := bpf.Load(s, cfg.limits(), programs...)
	if err != nil {
		return nil, err
	}
	k := &kernel{Monitor: m}
	for _, t := range tables {
		if err := k.addCleanup(t.cleanup, t.table); err != nil {
			k.close()
			return nil, err
		}
	}
	return k, nil
}

// tables are the maps with a clean-up.
var tables = []struct{ table, cleanup string }{
	{bpf.MonitorMapFlows, bpf.MonitorProgExpireFlows},
	{bpf.MonitorMapQueries, bpf.MonitorProgExpireQueries},
}

func (k *kernel) addCleanup(program, table string) error {
	iter, err := link.AttachIter(link.IterOptions{Program: k.Programs[program], Map: k.Maps[table]})
	if err != nil {
		return fmt.Errorf("attach %s: %w", program, err)
	}
	k.cleanups = append(k.cleanups, iter)
	return nil
}

func (k *kernel) close() {
	for _, iter := range k.cleanups {
		iter.Close()
	}
	k.Close()
}

// cleanUp removes what has timed out from the tables.
func (k *kernel) cleanUp() error {
	for _, iter := range k.cleanups {
		run, err := iter.Open()
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		_, err = io.Copy(io.Discard, run)
		run.Close()
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}

const runOnCPU = 1 // BPF_F_TEST_RUN_ON_CPU

// flush hands over the events that wait in the CPUs' batches.
func (k *kernel) flush() error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for cpu := range cpus {
		_, err := k.Programs[bpf.MonitorProgFlush].Run(&ebpf.RunOptions{CPU: uint32(cpu), Flags: runOnCPU})
		if err != nil && !errors.Is(err, errCPUOffline) {
			return fmt.Errorf("flush events: %w", err)
		}
	}
	return nil
}
