//go:build unix

package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time that this process has used.
func cpuTime() (CPUTime, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return CPUTime{}, err
	}
	return CPUTime{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano())}, nil
}
