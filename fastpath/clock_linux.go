package fastpath

import "sluice/clock"

// monotonic returns the time as the programs read it: nanoseconds since the machine was booted.
func monotonic() uint64 { return uint64(clock.NewSystem().Now()) }

// precedes reports whether t is before u. It compares their difference: a time some seconds ago may be before the
// machine was booted, and is then a very large number.
func precedes(t, u uint64) bool { return int64(t-u) < 0 }
