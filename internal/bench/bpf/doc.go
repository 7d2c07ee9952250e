// Package bpf holds the kernel program that counts the system calls of a process.
package bpf

//go:generate go tool bpf2go -target bpfel Syscalls syscalls.bpf.c
