// Package bpf holds the kernel programs that generate forwarded traffic.
package bpf

//go:generate go tool bpf2go -target bpfel Flood flood.bpf.c
