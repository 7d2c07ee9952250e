package syscalls

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func name(number uint32) string {
	if name, ok := names[number]; ok {
		return name
	}
	return fmt.Sprintf("system call %d", number)
}

// names are the names of the calls that relays make, on every architecture. names_linux_amd64.go has more.
var names = map[uint32]string{
	unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_READV: "readv", unix.SYS_WRITEV: "writev",
	unix.SYS_PREAD64: "pread64", unix.SYS_CLOSE: "close", unix.SYS_OPENAT: "openat", unix.SYS_FSTAT: "fstat",
	unix.SYS_FCNTL: "fcntl", unix.SYS_IOCTL: "ioctl", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg",
	unix.SYS_SENDTO: "sendto", unix.SYS_RECVMSG: "recvmsg", unix.SYS_RECVMMSG: "recvmmsg",
	unix.SYS_RECVFROM: "recvfrom", unix.SYS_SOCKET: "socket", unix.SYS_BIND: "bind", unix.SYS_CONNECT: "connect",
	unix.SYS_ACCEPT4: "accept4", unix.SYS_GETSOCKOPT: "getsockopt", unix.SYS_SETSOCKOPT: "setsockopt",
	unix.SYS_GETSOCKNAME: "getsockname", unix.SYS_EPOLL_CTL: "epoll_ctl", unix.SYS_EPOLL_PWAIT: "epoll_pwait",
	unix.SYS_EPOLL_PWAIT2: "epoll_pwait2", unix.SYS_EVENTFD2: "eventfd2", unix.SYS_PPOLL: "ppoll",
	unix.SYS_PSELECT6:       "pselect6",
	unix.SYS_IO_URING_ENTER: "io_uring_enter", unix.SYS_FUTEX: "futex", unix.SYS_NANOSLEEP: "nanosleep",
	unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep", unix.SYS_CLOCK_GETTIME: "clock_gettime",
	unix.SYS_SCHED_YIELD: "sched_yield", unix.SYS_SCHED_GETAFFINITY: "sched_getaffinity",
	unix.SYS_TIMERFD_SETTIME: "timerfd_settime", unix.SYS_TIMER_SETTIME: "timer_settime",
	unix.SYS_RESTART_SYSCALL: "restart_syscall", unix.SYS_MMAP: "mmap", unix.SYS_MUNMAP: "munmap",
	unix.SYS_MADVISE: "madvise", unix.SYS_MPROTECT: "mprotect", unix.SYS_BRK: "brk", unix.SYS_CLONE: "clone",
	unix.SYS_CLONE3: "clone3", unix.SYS_EXIT: "exit", unix.SYS_GETTID: "gettid", unix.SYS_GETPID: "getpid",
	unix.SYS_TGKILL: "tgkill", unix.SYS_RT_SIGRETURN: "rt_sigreturn", unix.SYS_RT_SIGPROCMASK: "rt_sigprocmask",
	unix.SYS_SIGALTSTACK: "sigaltstack", unix.SYS_PRCTL: "prctl", unix.SYS_MEMBARRIER: "membarrier",
	unix.SYS_BPF: "bpf", unix.SYS_GETRANDOM: "getrandom", unix.SYS_RSEQ: "rseq", unix.SYS_GETRUSAGE: "getrusage",
	unix.SYS_STATX: "statx", unix.SYS_GETDENTS64: "getdents64",
}
