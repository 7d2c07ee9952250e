// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Ingress of the device that leads to publishers: opens their packets and sends copies of the media in them to
// subscribers. Every packet passes on to user space unchanged, whatever becomes of it here.
//go:build ignore

#include "transport/transport.h"
#include "fanout/fanout.h"
#include <bpf/bpf_core_read.h>

#define CHECKSUM_PARTIAL 3

struct sk_buff {
	u8 ip_summed : 2;
	u16 csum_start, csum_offset, mac_header;
} __attribute__((preserve_access_index));

void *bpf_cast_to_kern_ctx(void *obj) __ksym;

// partial_checksum returns where the UDP header begins in a frame whose checksum the device is to complete (veth,
// virtio, tun), or 0. __sk_buff does not show that state, so it is read from the kernel's own struct, whose fields
// CO-RE finds.
//
// Clones inherit the state: the device sums everything from csum_start to the end of whatever the clone has become, and
// stores the result at csum_offset. A copy must have its UDP header at the same place, and the pseudo header's sum in
// its checksum field, or leave with a wrong checksum.
INLINE u32 partial_checksum(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	if (BPF_CORE_READ_BITFIELD(skb, ip_summed) != CHECKSUM_PARTIAL)
		return 0;
	return skb->csum_start - skb->mac_header;
}

// open_datagram is a function of its own so that its stack is free again when the fan-out begins.
static __noinline int open_datagram(struct __sk_buff *skb, u32 *publisher)
{
	struct datagram d = {};

	if (parse_datagram(skb, &d) || d.dport != relay_port)
		return PACKET_NOT_MEDIA;
	if (d.first & LONG_HEADER)
		return PACKET_LONG_HEADER;
	if (skb->gso_segs > 1)
		return PACKET_GSO;
	return open_packet(skb, d.payload_at, d.payload_len, publisher);
}

INLINE enum reason take_packet(struct __sk_buff *skb)
{
	u32 publisher = 0;
	enum reason why = open_datagram(skb, &publisher);

	if (why != PACKET_OPENED)
		return why;
	struct scratch *c = scratch_get();
	struct publisher *p = bpf_map_lookup_elem(&publishers, &publisher);
	if (!c || !p)
		return PACKET_NOT_MEDIA;
	enum walk_result walked = walk_frames(c);
	if (walked == WALK_MALFORMED)
		return PACKET_MALFORMED;
	c->publisher = publisher;
	c->checksum_start = partial_checksum(skb);
	c->work = 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= c->frame_count)
			break;
		forward_frame(skb, c, i, p);
	}
	return walked == WALK_STOPPED ? PACKET_UNKNOWN_FRAME : PACKET_OPENED;
}

SEC("tc") int server_ingress(struct __sk_buff *skb)
{
	count(take_packet(skb));
	return VERDICT_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
