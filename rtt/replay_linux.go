package rtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/rtt/bpf"
	"sluice/rtt/kernel"
	"sluice/rtt/pcap"
)

// replay runs a capture through the kernel programs.
type replay struct {
	Replayed
	cfg     MonitorConfig
	kernel  *kernel.Programs
	ring    *kernel.Ring
	decode  *kernel.Decoder
	totals  *kernel.Aggregator
	turn    time.Time // when the current interval of aggregation ends
	cleanup time.Time // when the next clean-up is due
	last    time.Time // when the last packet was captured
	batch   replayBatch
	drained uint64 // Packets, when events were last read
}

// Replay measures the packets of a pcap, pcapng or ERF capture as a Monitor's programs do, at the times when they were
// captured, many of them in one run of a program. It does not use the Config's interfaces and hooks. It stays on one
// CPU: each CPU counts the bytes of a second by itself and hands them over with its next packet (bpf/load.h), so what a
// packet finds would depend on where the packets before it ran. The same capture must give the same output.
func Replay(ctx context.Context, cfg MonitorConfig, file io.Reader) (Replayed, error) {
	cfg.setDefaults()
	cfg.IncludeLocal = true // the addresses of the host that captured are not known
	if err := cfg.validate(); err != nil {
		return Replayed{}, err
	}
	if cfg.AggregateBy.Interface {
		return Replayed{}, errors.New("--aggregate-by interface: must be without --pcap, which has one observer")
	}
	c, err := pcap.NewReader(file)
	if err != nil {
		return Replayed{}, err
	}
	leave, err := stayOnCPU()
	if err != nil {
		return Replayed{}, err
	}
	defer leave()
	r := &replay{cfg: cfg}
	defer r.close()
	if err := r.load(); err != nil {
		return Replayed{}, err
	}
	return r.Replayed, errors.Join(r.run(ctx, c), r.finish())
}

func (r *replay) load() (err error) {
	s := r.cfg.settings()
	s.Replay, s.Batch, s.Vlans = 1, 1, 1
	limits := r.cfg.limits()
	limits.RingBytes = max(limits.RingBytes, replayRing)
	if r.kernel, err = kernel.Load(s, limits, []string{bpf.MonitorProgReplayBatch}); err != nil {
		return err
	}
	if r.cfg.Aggregate > 0 {
		if r.totals, err = r.cfg.newAggregator(r.kernel, nil); err != nil {
			return err
		}
	}
	wall := func(ns uint64) time.Time { return time.Unix(0, int64(ns)).UTC() }
	r.decode = &kernel.Decoder{Wall: wall, Sink: r.cfg.Sink}
	r.ring, err = kernel.NewRing(r.kernel.Maps[bpf.MonitorMapEvents])
	return err
}

func (r *replay) close() {
	if r.ring != nil {
		r.ring.Close()
	}
	if r.kernel != nil {
		r.kernel.Close()
	}
}

func (r *replay) run(ctx context.Context, c *pcap.Reader) error {
	for ctx.Err() == nil {
		p, err := c.Read()
		if errors.Is(err, io.EOF) {
			return r.show()
		}
		if _, unknown := errors.AsType[*pcap.LinkError](err); unknown {
			r.Skipped++
			continue
		}
		if err != nil {
			return fmt.Errorf("read capture after %d packets: %w", r.Packets, err)
		}
		if err := r.packet(p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// packet runs the duties due before a packet, and then adds it to those that the program sees next.
func (r *replay) packet(p pcap.Packet) error {
	if err := r.due(p.At); err != nil {
		return err
	}
	r.last = p.At
	if cutHeader(p.Frame) {
		r.Skipped++
		return nil
	}
	r.Packets++
	if r.batch.add(p) {
		return nil
	}
	if err := r.show(); err != nil {
		return err
	}
	r.batch.add(p)
	return nil
}

// show lets the program see the batch, and reads its events before the ring could be full.
func (r *replay) show() error {
	if err := r.batch.run(r.kernel.Programs[bpf.MonitorProgReplayBatch]); err != nil {
		return fmt.Errorf("replay packets: %w", err)
	}
	if r.Packets-r.drained < drainEvery {
		return nil
	}
	r.drained = r.Packets
	return r.drain()
}

// A capture whose times jump is taken for two: by more intervals than this, or so far back.
const (
	maxEmpty = 1000
	maxBack  = time.Minute
)

// due ends intervals and cleans up tables, if it is time.
func (r *replay) due(now time.Time) error {
	gap := now.Sub(r.last)
	if r.last.IsZero() || gap < -maxBack || r.totals != nil && gap > maxEmpty*r.cfg.Aggregate {
		if err := r.begin(now); err != nil {
			return err
		}
	}
	for r.totals != nil && !now.Before(r.turn) {
		if err := r.endInterval(r.turn); err != nil {
			return err
		}
		r.turn = r.turn.Add(r.cfg.Aggregate)
	}
	if r.cfg.CleanupInterval > 0 && !now.Before(r.cleanup) {
		if err := r.show(); err != nil {
			return err
		}
		r.cleanup = now.Add(r.cfg.CleanupInterval)
		at := uint64(now.UnixNano())
		if err := r.kernel.SetClock(at, 0); err != nil {
			return err
		}
		return r.kernel.CleanUp(at)
	}
	return nil
}

// begin begins with a capture, or with the next one.
func (r *replay) begin(now time.Time) error {
	if err := r.endLast(); err != nil {
		return err
	}
	r.cleanup = now
	if r.totals != nil {
		r.totals.Begin(now)
		r.turn = now.Add(r.cfg.Aggregate)
	}
	return nil
}

// endLast takes the last events of a capture, and ends its last interval, which is shorter than the others.
func (r *replay) endLast() error {
	if r.totals == nil || r.last.IsZero() {
		return r.drain()
	}
	return r.endInterval(r.last)
}

func (r *replay) endInterval(at time.Time) error {
	if err := r.show(); err != nil {
		return err
	}
	if err := r.drain(); err != nil {
		return err
	}
	i, err := r.totals.Turn(at, func() {})
	if err != nil {
		return err
	}
	return r.cfg.Sink.Interval(i)
}

func (r *replay) drain() error { return r.ring.Read(r.decode.Decode) }

// finish reports the rest.
func (r *replay) finish() error {
	if err := r.endLast(); err != nil {
		return err
	}
	if err := newLossReport(r.cfg.Logger, r.kernel.Counters).report(); err != nil {
		return err
	}
	return r.cfg.Sink.Flush()
}
