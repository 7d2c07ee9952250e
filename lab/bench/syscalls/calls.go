package syscalls

import "time"

// Calls are what a process has called of one name.
type Calls struct {
	Count uint64
	Time  time.Duration // from entry to return, waiting included; of those that have returned
}

// Waits returns whether a call is one with which a thread waits, so that most of its time is no work.
func Waits(name string) bool {
	switch name {
	case "futex", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "nanosleep",
		"clock_nanosleep", "io_uring_enter", "restart_syscall":
		return true
	}
	return false
}
