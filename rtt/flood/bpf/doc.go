// Package bpf holds the kernel programs that generate forwarded traffic.
package bpf

//go:generate go tool bpf2go -target bpfel -no-global-types Flood flood.bpf.c
