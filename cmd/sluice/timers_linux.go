package main

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	timerSlack        = 250_000 // ns; the media sender's timers are milliseconds
	defaultTimerSlack = 50_000  // the kernel's
)

// coarsenTimers lets the kernel delay the timers of this process by up to timerSlack (prctl(2), PR_SET_TIMERSLACK). While goroutines run Go's
// monitor thread sleeps 20 µs at a time, in a relay several times for each frame: with the kernel's default that takes a third of all its
// CPU time, and more than half of its context switches.
//
// Threads inherit the slack from the one that creates them, and Go creates that thread before any code of ours. Therefore the program
// executes itself again, unless somebody has chosen another slack, like the systemd unit. It goes on as it is where that fails.
func coarsenTimers() {
	runtime.LockOSThread() // the slack is that of the thread which executes
	defer runtime.UnlockOSThread()
	if currentTimerSlack() != defaultTimerSlack || unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0) != nil || currentTimerSlack() != timerSlack {
		return
	}
	if program, err := os.Executable(); err == nil {
		_ = syscall.Exec(program, os.Args, os.Environ())
	}
}

// currentTimerSlack is that of the calling thread; -1 where there is none.
func currentTimerSlack() int {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return ns
}
