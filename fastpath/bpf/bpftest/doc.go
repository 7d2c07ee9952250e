// Package bpftest runs parts of the kernel programs of package bpf by themselves: the cryptography, the frame walk, the
// parsers of media headers, the policy, kinds and frames of RTP, and reading what user space replaces. It also builds
// the frames that tests give to the programs.
package bpftest

//go:generate go tool bpf2go -target bpfel -no-global-types -type packet_keys -type scratch_layout -type crypto_args -type scratch Crypto crypto.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types -type frame -type media_header -type walk_result -type scratch Walk walk.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types -type reason -type claim -type conn_state -type scratch Policy policy.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types -type reason -type rtp_codec -type rtp_kind -type rtp_part RTP rtp.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types Rule rule.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types Versions versions.bpf.c
