// Package bpf holds the kernel programs of the latency monitor, their generated types, and the loader that sizes them.
package bpf

//go:generate go tool bpf2go -target bpfel -type bins -type counter_set -type outcome -type tally -type transport -type event -type event_type -type event_flag -type open_reason -type close_reason -type trigger -type method -type flow_key -type flow -type side_state -type query_key -type query -type loss_bits -type loss -type spin_class -type traffic_class -type traffic -type side -type tcp_side -type tcp -type tcp_alone -type spin -type traffic_period -type rtt_period -type traffic_entry -type rtt_entry -type prefix_key -type prefix_flag -type load_second -type load_entry -type quic -type move -type stamp_set -type group_lookup Monitor monitor.bpf.c
