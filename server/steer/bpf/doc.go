// Package bpf holds the kernel program that chooses the socket for a datagram, and its generated types.
package bpf

//go:generate go tool bpf2go -target bpfel -no-global-types -type steer_verdict -type process -type arrivals Steer steer.bpf.c
//go:generate go run sluice/internal/bpf/constants -object steer_bpfel.o -headers steer.h -package steer -o ../constants.go naming
