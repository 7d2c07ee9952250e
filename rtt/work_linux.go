package rtt

import (
	"slices"
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
	return slices.MinFunc(d, func(a, b duty) int { return a.next.Compare(b.next) }).next
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
