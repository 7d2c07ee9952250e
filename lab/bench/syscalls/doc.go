// Package syscalls counts the system calls of a process by name, with an eBPF program at the raw tracepoint
// sys_enter: it costs the process less than strace would, and sees every thread.
package syscalls
