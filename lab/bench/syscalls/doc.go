// Package syscalls counts the system calls of a process by name and takes their time, with eBPF programs at the raw
// tracepoints sys_enter and sys_exit: they cost the process less than strace would, and see every thread.
package syscalls
