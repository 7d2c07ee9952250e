// Package bpftest runs parts of the kernel programs of package bpf by themselves: the cryptography, the frame walk, the
// parsers of media headers, the policy, kinds and frames of RTP, and reading what user space replaces. It also builds
// the frames that tests give to the programs.
package bpftest

//go:generate go tool bpf2go -target bpfel -type packet_keys -type scratch_layout Crypto crypto.bpf.c
//go:generate go tool bpf2go -target bpfel -type frame -type media_header -type walk_result Walk walk.bpf.c
//go:generate go tool bpf2go -target bpfel -type reason Policy policy.bpf.c
//go:generate go tool bpf2go -target bpfel -type reason -type rtp_codec -type rtp_kind RTP rtp.bpf.c
//go:generate go tool bpf2go -target bpfel Rule rule.bpf.c
//go:generate go tool bpf2go -target bpfel Versions versions.bpf.c
