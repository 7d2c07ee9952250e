package bench

import "golang.org/x/sys/unix"

func init() {
	syscallNames[unix.SYS_EPOLL_WAIT] = "epoll_wait"
	syscallNames[unix.SYS_POLL] = "poll"
	syscallNames[unix.SYS_SELECT] = "select"
	syscallNames[unix.SYS_OPEN] = "open"
	syscallNames[unix.SYS_NEWFSTATAT] = "newfstatat"
}
