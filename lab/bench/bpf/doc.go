// Package bpf holds the kernel programs that measure processes: the system calls of one with their times, and whose
// softirqs run.
package bpf

//go:generate go tool bpf2go -target bpfel -no-global-types -type usage Syscalls syscalls.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types -type softirq_times -type role Softirqs softirqs.bpf.c
