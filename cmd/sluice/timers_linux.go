package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const (
	timerSlack        = 250_000 // ns; the media sender's timers are milliseconds
	defaultTimerSlack = 50_000  // the kernel's
)

// coarsenTimers lets the kernel delay the timers of this process by up to timerSlack. While goroutines run, Go's
// monitor thread sleeps 20 µs at a time, in a relay several times for each frame: with the kernel's default that takes
// a third of the relay's CPU time, and more than half of its context switches.
//
// The slack belongs to a thread. prctl(2) sets that of the calling one, and the monitor thread runs no code of ours;
// but /proc/TID/timerslack_ns sets that of any thread, for processes with CAP_SYS_NICE. Threads that start later
// inherit it from one of those that are set. A slack that somebody has chosen stays, such as TimerSlackNSec= of the
// systemd unit, which needs no privilege. Without either the default stays.
func coarsenTimers() {
	// A thread that starts meanwhile has the slack of its creator: another pass finds it.
	for range 3 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, t := range threads {
			coarsenThread(fmt.Sprintf("/proc/%s/timerslack_ns", t.Name()))
		}
	}
}

// coarsenThread sets a thread's slack unless somebody has chosen one. A thread that has ended is no error.
func coarsenThread(path string) {
	slack, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(slack)) == strconv.Itoa(defaultTimerSlack) {
		_ = os.WriteFile(path, []byte(strconv.Itoa(timerSlack)), 0)
	}
}
