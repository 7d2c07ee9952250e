package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCeil(t *testing.T) {
	for at, want := range map[Time]Time{
		0: 0, 1: 4, 3: 4, 4: 4, 5: 8, Never - 4: Never - 3, Never - 1: Never, Never: Never,
	} {
		require.Equal(t, want, at.Ceil(4*time.Nanosecond), "%d", at)
	}
}

// TestReadIsInterrupted has a process that does not run between two readings of the clocks, once or always.
func TestReadIsInterrupted(t *testing.T) {
	for interruptions, late := range map[int]time.Duration{
		0: time.Microsecond, 1: time.Microsecond, 1000: time.Millisecond + time.Microsecond,
	} {
		start, elapsed := time.Now(), time.Duration(0)
		now := func() time.Time {
			elapsed += time.Microsecond
			return start.Add(elapsed)
		}
		c := read(now, func() Time {
			at := elapsed
			if interruptions--; interruptions >= 0 {
				elapsed += time.Duration(1+interruptions%7) * time.Millisecond
			}
			return Time(at)
		})
		require.Equal(t, late, Time(elapsed).Sub(c.At(start.Add(elapsed))))
	}
}
