//go:build unix

package server

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time that the process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil { // cannot fail
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
