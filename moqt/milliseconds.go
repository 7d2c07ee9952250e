package moqt

import (
	"math"
	"time"
)

// Milliseconds converts a time of the wire format, 0 to 2^64-1 milliseconds, to a Duration. What a Duration cannot
// hold becomes the longest one, about 292 years.
func Milliseconds(ms uint64) time.Duration {
	if ms > math.MaxInt64/uint64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
