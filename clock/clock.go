// Package clock tells the time as the two senders of a connection share it: nanoseconds of the system's monotonic
// clock.
//
// The kernel's programs stamp the packets that they send with CLOCK_MONOTONIC, and the media sender computes round-trip
// times from these stamps. Go's own monotonic clock has another origin, so [System] translates.
package clock

import (
	"math"
	"time"
)

// Time is nanoseconds of the system's monotonic clock, on Linux CLOCK_MONOTONIC.
type Time int64

// Never is a deadline that does not come.
const Never Time = 1<<63 - 1

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Ceil returns the first multiple of d at or after t, or [Never].
func (t Time) Ceil(d time.Duration) Time {
	if t > Never-Time(d) {
		return Never
	}
	return t + (Time(d)-t%Time(d))%Time(d)
}

// Clock tells the time. Tests have their own.
type Clock interface {
	// Now returns the time.
	Now() Time
	// At translates a time that has a reading of Go's monotonic clock.
	At(time.Time) Time
	// When is the reverse of At.
	When(Time) time.Time
	// Wall returns the time of day, with a reading of Go's monotonic clock.
	Wall() time.Time
}

// System is the clock of the system. Use [NewSystem].
type System struct {
	base   time.Time
	origin Time // base by CLOCK_MONOTONIC
}

// shared is the clock of a simulation; else it is nil.
var shared *System

// SetOrigin has all clocks of the process from now on say at when it is base. It is for simulations of a process and a
// kernel in virtual time, which need the same clock, and whose times follow from a seed.
func SetOrigin(base time.Time, at Time) { shared = &System{base, at} }

// NewSystem returns the clock of the system.
func NewSystem() System {
	if shared != nil {
		return *shared
	}
	return read(time.Now, monotonic)
}

// read reads both clocks as one. If the process does not run for a while in between, it reads them again: else its
// clock would be ahead of the kernel's by that time, for as long as it is used.
func read(now func() time.Time, monotonic func() Time) (c System) {
	const tries, moment = 100, 10 * time.Microsecond
	closest := time.Duration(math.MaxInt64)
	for i := 0; i < tries && closest > moment; i++ {
		before, at, base := now(), monotonic(), now()
		if took := base.Sub(before); took < closest {
			c, closest = System{base, at}, took
		}
	}
	return c
}

// Now implements [Clock].
func (c System) Now() Time { return c.origin.Add(time.Since(c.base)) }

// At implements [Clock].
func (c System) At(t time.Time) Time { return c.origin.Add(t.Sub(c.base)) }

// When implements [Clock].
func (c System) When(t Time) time.Time { return c.base.Add(t.Sub(c.origin)) }

// Wall implements [Clock].
func (c System) Wall() time.Time { return time.Now() }
