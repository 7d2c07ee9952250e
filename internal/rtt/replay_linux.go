package rtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"sluice/internal/rtt/bpf"
	"sluice/internal/rtt/kernel"
	"sluice/internal/rtt/pcap"
)

// Replayed counts the packets of a capture.
type Replayed struct {
	Packets uint64
	Skipped uint64 // with an unknown link type, or an IP header that was not captured
}

// replay runs a capture through the kernel programs.
type replay struct {
	Replayed
	cfg     MonitorConfig
	kernel  *kernel.Programs
	reader  *ringbuf.Reader
	decode  *kernel.Decoder
	totals  *kernel.Aggregator
	turn    time.Time // when the current interval of aggregation ends
	cleanup time.Time // when the next clean-up is due
	last    time.Time // when the last packet was captured
}

// Replay measures the packets of a pcap or pcapng capture with a Monitor's programs, at the times when they were
// captured. It does not use the Config's interfaces and hooks.
func Replay(ctx context.Context, cfg MonitorConfig, file io.Reader) (Replayed, error) {
	cfg.setDefaults()
	cfg.IncludeLocal = true // the addresses of the host that captured are not known
	if err := cfg.validate(); err != nil {
		return Replayed{}, err
	}
	c, err := pcap.NewReader(file)
	if err != nil {
		return Replayed{}, err
	}
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
	if r.kernel, err = kernel.Load(s, r.cfg.limits(), []string{bpf.MonitorProgIngress}); err != nil {
		return err
	}
	if r.cfg.Aggregate > 0 {
		if r.totals, err = r.cfg.newAggregator(r.kernel); err != nil {
			return err
		}
	}
	r.decode = &kernel.Decoder{Wall: func(ns uint64) time.Time { return time.Unix(0, int64(ns)) }, Sink: r.cfg.Sink}
	r.reader, err = ringbuf.NewReader(r.kernel.Maps[bpf.MonitorMapEvents])
	return err
}

func (r *replay) close() {
	if r.reader != nil {
		r.reader.Close()
	}
	if r.kernel != nil {
		r.kernel.Close()
	}
}

// drainEvery is the number of packets after which events are read. A packet causes at most four events, and the
// smallest ring holds 31.
const drainEvery = 7

func (r *replay) run(ctx context.Context, c *pcap.Reader) error {
	for ctx.Err() == nil {
		p, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
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

// packet does what is due before a packet, and then shows it to the program.
func (r *replay) packet(p pcap.Packet) error {
	if err := r.due(p.At); err != nil {
		return err
	}
	r.last = p.At
	if err := r.kernel.SetClock(uint64(p.At.UnixNano()), p.Length); err != nil {
		return err
	}
	_, err := r.kernel.Programs[bpf.MonitorProgIngress].Run(&ebpf.RunOptions{Data: runnable(p.Frame)})
	if errors.Is(err, unix.EINVAL) {
		r.Skipped++ // the kernel does not run the program over a cut IP header
		return nil
	}
	if err != nil {
		return fmt.Errorf("replay a packet: %w", err)
	}
	r.Packets++
	if r.Packets%drainEvery == 0 {
		return r.drain()
	}
	return nil
}

// due ends intervals and cleans up tables, if it is time.
func (r *replay) due(now time.Time) error {
	if r.cleanup.IsZero() {
		r.begin(now)
	}
	for r.totals != nil && !now.Before(r.turn) {
		if err := r.endInterval(r.turn); err != nil {
			return err
		}
		r.turn = r.turn.Add(r.cfg.Aggregate)
	}
	if r.cfg.CleanupInterval > 0 && !now.Before(r.cleanup) {
		r.cleanup = now.Add(r.cfg.CleanupInterval)
		if err := r.kernel.SetClock(uint64(now.UnixNano()), 0); err != nil {
			return err
		}
		return r.kernel.CleanUp()
	}
	return nil
}

func (r *replay) begin(now time.Time) {
	r.cleanup = now.Add(r.cfg.CleanupInterval)
	if r.totals != nil {
		r.totals.Begin(now)
		r.turn = now.Add(r.cfg.Aggregate)
	}
}

func (r *replay) endInterval(at time.Time) error {
	if err := r.drain(); err != nil {
		return err
	}
	i, err := r.totals.Turn(at, func() {})
	if err != nil {
		return err
	}
	return r.cfg.Sink.Interval(i)
}

func (r *replay) drain() error {
	r.reader.SetDeadline(time.Unix(0, 1))
	var record ringbuf.Record
	for {
		if err := r.reader.ReadInto(&record); errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if err := r.decode.Decode(record.RawSample); err != nil {
			return err
		}
	}
}

// finish reports the rest of what was measured, and the last interval, which is shorter than the others.
func (r *replay) finish() error {
	if err := r.drain(); err != nil {
		return err
	}
	if r.totals != nil && !r.last.IsZero() {
		if err := r.endInterval(r.last); err != nil {
			return err
		}
	}
	if err := newLossReport(r.cfg.Logger, r.kernel.Counters).report(); err != nil {
		return err
	}
	return r.cfg.Sink.Flush()
}

// The kernel runs programs over frames of at least minRun bytes. The programs look at no byte after maxRun.
const (
	minRun = 15
	maxRun = 2048
)

// runnable pads or cuts a frame to such a length.
func runnable(frame []byte) []byte {
	if len(frame) < minRun {
		return append(frame[:len(frame):len(frame)], make([]byte, minRun-len(frame))...)
	}
	return frame[:min(len(frame), maxRun)]
}
