// Package bpf holds the kernel programs of the lab: the conditions of links, and the times at which packets pass.
package bpf

//go:generate go tool bpf2go -target bpfel -no-global-types -type conditions -type events -type event -type wire_header -type direction -type lane -type verdict Link link.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types -type packet Capture capture.bpf.c
