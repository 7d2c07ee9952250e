// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Entries for tests of RTP: the kind of a payload, which frames of a media there are, and which ones go to a player.
//go:build ignore

#include "../policy/flow.h"

#define PAYLOAD_BEGINS 14 // behind an Ethernet header

struct rtp_frames frames;
struct rtp_flow flow;
struct rtp_part part;
u32 codec, temporal, timestamp, sequence;

// A packet is the payload.
SEC("tc") int test_kind(struct __sk_buff *skb)
{
	return kind_of(skb, codec, PAYLOAD_BEGINS, skb->len, &temporal);
}

SEC("tc") int test_number(struct __sk_buff *skb)
{
	return number_frame(&frames, timestamp, sequence);
}

SEC("tc") int test_goes(struct __sk_buff *skb)
{
	return frame_goes(&flow, &part);
}

char _license[] SEC("license") = "Dual BSD/GPL";
