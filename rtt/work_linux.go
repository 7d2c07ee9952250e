package rtt

import (
	"context"
	"errors"
	"time"
)

// duty is work that a Monitor does at intervals.
type duty struct {
	every time.Duration
	do    func() error
	next  time.Time
}

// duties are done on one goroutine, and at the same times as far as their intervals allow: each time that a process
// wakes up costs more than most of them.
type duties []duty

// begin makes the first intervals begin.
func (d duties) begin(now time.Time) {
	for i := range d {
		d[i].next = now.Add(d[i].every)
	}
}

// next returns when the next one is due.
func (d duties) next() time.Time {
	next := d[0].next
	for _, one := range d[1:] {
		if one.next.Before(next) {
			next = one.next
		}
	}
	return next
}

// do runs the duties that are due. Of intervals that have passed meanwhile one is left.
func (d duties) do(now time.Time) error {
	for i := range d {
		one := &d[i]
		late := now.Sub(one.next)
		if late < 0 {
			continue
		}
		one.next = one.next.Add((late/one.every + 1) * one.every)
		if err := one.do(); err != nil {
			return err
		}
	}
	return nil
}

// duties returns the work at intervals: take events, end intervals of aggregation, follow the wall clock, report
// losses, clean up tables. Batches are read at intervals, with the ring: a process that waits for each batch wakes up
// too often.
func (m *Monitor) duties(losses *lossReport, expired chan<- uint64) duties {
	d := duties{{every: time.Second, do: func() error {
		m.clock.sync()
		return errors.Join(losses.report(), m.ring.Trim())
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
