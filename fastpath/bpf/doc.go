// Package bpf holds the kernel programs that forward media, and their generated types.
//
// The C code is written in layers, a folder each. The header of the same name says what a layer promises to the layers
// above:
//
//	server_ingress.bpf.c, client_egress.bpf.c     entries: thin, one for each hook
//	rtp_ingress.bpf.c                             the same for RTP, with the same egress
//	ask.bpf.c       the entry for user space to ask an operator's program, in place of policy/admit.h
//	fanout/         one frame becomes a copy for each subscriber: routes, budget, clones, counters
//	policy/         may this copy go now? For RTP: does this frame go to the player?
//	application/    MoQT: which track, for whom, the rewritten bytes, the priority; RTP: which medium, which frame
//	transport/      QUIC packets: open, walk the frames, seal; UDP datagrams
//	shared/         the state that user space shares, the claim protocol, reasons, the scratch
//
// A layer includes headers of the layers below it and of shared, and calls nothing above it.
//
// With the build tag unprotected, the package has server_ingress without packet protection (transport/unprotected.h).
package bpf

//go:generate -command ingress go tool bpf2go -target bpfel -no-global-types -type conn_state -type stream_state -type send_keys -type copy_counts -type publisher -type held -type packet_keys -type subscription -type record -type key_stream -type object_layout -type capacity -type share_kind -type lookahead -type slot_word -type udp_path -type lookahead_ring -type delay_counts -type delay_bins -type scratch -type alias_key -type connection_id -type downstream_key -type neighbor -type object_claim -type object_key -type path -type reason -type stream_key -type subgroup -type subgroup_key -type track -type version_key
//go:generate ingress -tags !unprotected Ingress server_ingress.bpf.c
//go:generate ingress -tags unprotected -output-stem ingress_unprotected Ingress server_ingress.bpf.c -- -DUNPROTECTED
//go:generate go tool bpf2go -target bpfel -no-global-types Egress client_egress.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types -type rtp_media -type rtp_player -type rtp_slot -type rtp_flow -type rtp_frames -type rtp_limits -type rtp_mark -type rtp_job_word -type job -type job_limits -type endpoint -type udp_path RTP rtp_ingress.bpf.c
//go:generate go tool bpf2go -target bpfel -no-global-types -type admission -type answer Ask ask.bpf.c
//go:generate go run sluice/internal/bpf/constants -object ingress_bpfel.o -headers shared/keys.h,shared/state.h -package claim -o ../../claim/constants.go packet_word ledger_layout stream_phase stream_mark record_mark record_kind record_flag
//go:generate go run sluice/internal/bpf/constants -object ingress_bpfel.o -headers shared/keys.h,shared/state.h -package fastpath -o ../constants.go subscription_limits
//go:generate go run sluice/internal/bpf/constants -object ingress_bpfel.o -headers shared/delay.h -package delay -o ../../internal/delay/constants.go delay_bins
