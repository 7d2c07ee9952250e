package syscalls

import "golang.org/x/sys/unix"

func init() {
	names[unix.SYS_EPOLL_WAIT] = "epoll_wait"
	names[unix.SYS_POLL] = "poll"
	names[unix.SYS_SELECT] = "select"
	names[unix.SYS_OPEN] = "open"
	names[unix.SYS_NEWFSTATAT] = "newfstatat"
}
