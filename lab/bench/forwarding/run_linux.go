package forwarding

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sluice/lab/bench/procfs"
	"sluice/lab/bench/result"
	"sluice/rtt/flood"
)

// Segments that are forwarded at a time, before their ACKs: as fast as the CPU can, and at a rate. flood.Tick is a
// multiple of the latter, or the other way round.
const (
	fastStep  = 8 * flood.Tick
	pacedStep = flood.Tick / 8
)

// run is one run with a monitor, or without one, on a thread and in a network namespace that end with it.
func (c Config) run(ctx context.Context, l load, m *Monitor) result.Run {
	out := result.Run{System: None, Metrics: make(map[string]float64)}
	if m != nil {
		out.System = m.Name
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends
		done <- c.onThread(ctx, l, m, out.Metrics)
	}()
	if err := <-done; err != nil {
		out.Unusable = "the run failed: " + err.Error()
	}
	return out
}

func (c Config) onThread(ctx context.Context, l load, m *Monitor, values map[string]float64) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace (needs root): %w", err)
	}
	router, err := c.traffic(l.flows)
	if err != nil {
		return err
	}
	defer router.Close()
	// The monitor inherits the CPUs of this thread, which then takes the last one. No packet needs another CPU: the
	// thread's system calls make and forward them.
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	others, last := split(all)
	if c.OneCPU {
		others = last
	}
	if err := unix.SchedSetaffinity(0, &others); err != nil {
		return err
	}
	var p *monitor
	if m != nil {
		if p, err = start(ctx, m, l.mode); err != nil {
			return err
		}
		defer p.kill()
	}
	if err := unix.SchedSetaffinity(0, &last); err != nil {
		return err
	}
	f := forwarder{router: router, load: l, duration: c.Duration, shared: c.OneCPU && !c.EndHosts}
	if err := f.measure(ctx, p); err != nil {
		return err
	}
	f.addTo(values)
	if p == nil {
		return nil
	}
	return c.addMonitor(p, &f, values)
}

// split takes the last CPU from those that the process may use, which need not begin with CPU 0. If there is only one,
// both get it.
func split(all unix.CPUSet) (others, last unix.CPUSet) {
	cpu := len(all)*bits.UintSize - 1
	for cpu > 0 && !all.IsSet(cpu) {
		cpu--
	}
	last.Set(cpu)
	if others = all; all.Count() > 1 {
		others.Clear(cpu)
	}
	return others, last
}

// forwarder forwards a load, and measures the CPU time.
type forwarder struct {
	router   traffic
	load     load
	duration time.Duration
	shared   bool // the monitor has the same CPU, and passed.used lacks its CPU time

	warmup, segments int // before, and while it measured
	passed           passed
	elapsed          time.Duration
	monitor, others  time.Duration // CPU time of processes
}

// measure forwards until the duration is over. The flows are known before.
func (f *forwarder) measure(ctx context.Context, p *monitor) error {
	for f.warmup < max(f.load.flows, fastStep) {
		if _, err := f.router.forward(fastStep); err != nil {
			return err
		}
		f.warmup += fastStep
	}
	before, err := procfs.ReadProcesses()
	if err != nil {
		return err
	}
	started, err := p.cpuTime()
	if err != nil {
		return err
	}
	if err := f.forward(ctx); err != nil {
		return err
	}
	ended, err := p.cpuTime()
	if err != nil {
		return err
	}
	after, err := procfs.ReadProcesses()
	f.monitor = ended - started
	f.others = procfs.UsedBetween(p.without(before), p.without(after))
	return err
}

func (f *forwarder) forward(ctx context.Context) error {
	step, every := fastStep, time.Duration(0)
	if f.load.rate != 0 {
		step = pacedStep
		every = time.Duration(float64(8*length(step)) / float64(f.load.rate) * 1e9)
	}
	begin := time.Now()
	for n := 1; ; n++ {
		more, err := f.router.forward(step)
		if err != nil {
			return err
		}
		f.segments, f.passed = f.segments+step, f.passed.plus(more)
		time.Sleep(time.Until(begin.Add(time.Duration(n) * every)))
		// A timestamp is counted when all of its segments were forwarded.
		if f.elapsed = time.Since(begin); f.elapsed >= f.duration && f.segments%flood.Tick == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// period returns the time that one CPU took: real time if a rate sets the pace, otherwise CPU time. Of a flood, that
// has no part of what other programs do on this CPU meanwhile.
func (f *forwarder) period() time.Duration {
	switch {
	case f.load.rate != 0:
		return f.elapsed
	case f.shared:
		return f.passed.used + f.monitor
	}
	return f.passed.used
}

// addTo adds the cost of forwarding. At a given rate, packets a second say nothing.
func (f *forwarder) addTo(values map[string]float64) {
	values["others"] = percent(f.others, f.elapsed)
	if f.load.rate != 0 {
		values["forwarder"] = percent(f.passed.used, f.elapsed)
		return
	}
	packets, period := float64(f.passed.packets), f.period()
	values["rate"] = packets / period.Seconds() / 1e6
	values["bits"] = 8 * float64(f.passed.bytes) / period.Seconds() / 1e9
	values["packet"] = float64(period.Nanoseconds()) / packets
}

func percent(part, whole time.Duration) float64 { return 100 * part.Seconds() / whole.Seconds() }

// addMonitor ends the monitor, and adds its results.
func (c Config) addMonitor(p *monitor, f *forwarder, values map[string]float64) error {
	time.Sleep(c.Settle)
	memory, err := procfs.ReadMemory(p.PID())
	if err != nil {
		return err
	}
	rtts, err := p.end()
	if err != nil {
		return err
	}
	const mebibyte = 1 << 20
	values["user"] = percent(f.monitor, f.elapsed)
	values["anonymous"] = float64(memory.Anonymous) / mebibyte
	values["resident"] = float64(memory.Resident) / mebibyte
	all := f.warmup + f.segments
	values["rtts"] = float64(rtts) * float64(f.segments) / float64(all) / f.period().Seconds()
	if f.load.mode != Sampled && !c.EndHosts { // hosts choose how many timestamps they send
		values["missed"] = 100 * (1 - float64(rtts)/float64(expectedRTTs(f.load.flows, all)))
	}
	return nil
}

// expectedRTTs returns how many RTTs flows have that take turns with segments. A flow has one for each of its
// timestamps but the first, whose age nobody knows.
func expectedRTTs(flows, segments int) int {
	// With more flows than segments of a tick, each segment has a timestamp that is new to its flow.
	timestamps := min(flows, flood.Tick) * (segments / flood.Tick)
	return timestamps - flows
}
