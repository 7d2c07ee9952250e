// Package bpf holds the kernel programs that measure a process: its system calls, and the softirqs in its time.
package bpf

//go:generate go tool bpf2go -target bpfel Syscalls syscalls.bpf.c
//go:generate go tool bpf2go -target bpfel -type softirq_time Softirqs softirqs.bpf.c
