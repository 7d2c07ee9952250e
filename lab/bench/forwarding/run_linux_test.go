package forwarding

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSplit checks that the CPUs are those which the process may use.
func TestSplit(t *testing.T) {
	t.Parallel()
	set := func(cpus ...int) (s unix.CPUSet) {
		for _, cpu := range cpus {
			s.Set(cpu)
		}
		return s
	}
	for _, test := range []struct{ all, others, last unix.CPUSet }{
		{set(0, 1), set(0), set(1)},
		{set(4, 5, 7), set(4, 5), set(7)},
		{set(3), set(3), set(3)},
		{set(0, 1023), set(0), set(1023)},
	} {
		others, last := split(test.all)
		require.Equal(t, test.others, others)
		require.Equal(t, test.last, last)
	}
}

// TestShared has a monitor that takes as much CPU time as forwarding. On the CPU that forwards, it halves the rate.
func TestShared(t *testing.T) {
	t.Parallel()
	for shared, rate := range map[bool]float64{false: 2, true: 1} {
		values := make(map[string]float64)
		f := forwarder{
			shared: shared, passed: passed{packets: 2_000_000, used: time.Second}, monitor: time.Second,
			elapsed: time.Hour,
		}
		f.addTo(values)
		require.Equal(t, rate, values["rate"])
		require.Equal(t, 1000/rate, values["packet"])
	}
}
