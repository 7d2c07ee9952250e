package media

import "time"

// Time is nanoseconds of the system's monotonic clock: on Linux CLOCK_MONOTONIC, which the kernel's programs read too.
type Time int64

// never is a deadline that does not come.
const never Time = 1<<63 - 1

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// clock tells the time. Tests have their own.
type clock interface {
	now() Time
	at(time.Time) Time // of a time with a monotonic reading
	wall() time.Time
}

// systemClock is Go's monotonic clock with another origin.
type systemClock struct {
	base   time.Time
	origin Time // base by the system's clock
}

func newSystemClock() systemClock { return systemClock{time.Now(), monotonic()} }

func (c systemClock) now() Time           { return c.origin.Add(time.Since(c.base)) }
func (c systemClock) at(t time.Time) Time { return c.origin.Add(t.Sub(c.base)) }
func (c systemClock) wall() time.Time     { return time.Now() }
