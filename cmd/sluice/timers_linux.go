package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const (
	timerSlack        = 250_000 // ns; the media sender's timers take milliseconds
	defaultTimerSlack = 50_000  // the kernel's
)

// coarsenTimers lets the kernel delay the timers of this process by up to timerSlack. While goroutines run, Go's
// monitor thread sleeps 20 µs at a time, in a relay several times for each frame: with the kernel's default that takes
// a third of the relay's CPU time, and more than half of its context switches.
//
// Each thread has its own slack. prctl(2) sets it for the calling thread only, and the monitor thread runs no code of
// ours; but a process with CAP_SYS_NICE can set it for any thread, in /proc/TID/timerslack_ns. Threads that start later
// inherit it. A slack that somebody has chosen stays, such as TimerSlackNSec= of the systemd unit, which needs no
// privilege. Without either, the default stays.
func coarsenTimers() {
	// A thread that starts meanwhile has its creator's slack: another pass finds it.
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

// coarsenThread sets a thread's slack unless somebody has chosen one. It ignores threads that have ended.
func coarsenThread(path string) {
	slack, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(slack)) == strconv.Itoa(defaultTimerSlack) {
		_ = os.WriteFile(path, []byte(strconv.Itoa(timerSlack)), 0)
	}
}
