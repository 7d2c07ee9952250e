// Package testlimit bounds what the code under test may use when it reads bytes that strangers have made up. A recover
// does not help against memory that runs out, nor against a loop without end.
package testlimit

import (
	"runtime"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"

	"sluice/clock"
)

// Time is how much CPU time of the process a call of Run may take.
const Time = 10 * time.Second

// base is what a call may allocate for any input, and what other goroutines of the test may meanwhile.
const base = 8 << 20

// Run calls f, and fails the test if f allocates more than factor bytes for each byte of its input, beside a base.
// Memory that is free again counts, too. If f takes too much time, the process ends, with all stacks: in a fuzz test
// this saves the input. The test must not run in parallel with others. With -short memory has no limit, as the race
// detector, which make race runs so, makes pools forget what they have.
func Run(t testing.TB, input, factor int, f func()) {
	t.Helper()
	defer Start(t, input, factor)()
	f()
}

// Start is Run for what follows, until the function is called that it returns.
func Start(t testing.TB, input, factor int) (end func()) {
	stop, before := watch(), allocated()
	return func() {
		t.Helper()
		stop()
		if got, allowed := allocated()-before, uint64(base+factor*input); got > allowed && !testing.Short() {
			t.Errorf("%d bytes of input took %d bytes of memory: must be at most %d", input, got, allowed)
		}
	}
}

// allocated returns how many bytes the process has allocated since its start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// watch ends the process when it has used too much time, unless it is stopped before.
func watch() (stop func()) {
	began, done := cpuTime(), make(chan struct{})
	go func() {
		for range clock.Every(time.Second, done) {
			if used := cpuTime() - began; used > Time {
				stacks := make([]byte, 1<<20)
				panic("it takes " + used.String() + "\n" + string(stacks[:runtime.Stack(stacks, true)]))
			}
		}
	}()
	return func() { close(done) }
}

// cpuTime returns how much CPU time the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
