// Package bpftest runs parts of the kernel programs of package bpf by themselves: the cryptography, the frame walk and
// the parsers of media headers. It also builds the frames that tests give to the programs.
package bpftest

//go:generate go tool bpf2go -target bpfel -type packet_keys -type scratch_layout Crypto crypto.bpf.c
//go:generate go tool bpf2go -target bpfel -type frame -type media_header -type walk_result Walk walk.bpf.c
