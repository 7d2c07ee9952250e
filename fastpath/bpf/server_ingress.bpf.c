// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Ingress of the device that publishers are reached by: opens their packets and sends the media in them to subscribers.
// Every packet passes on to user space unchanged, whatever becomes of it here.
#include "packet.h"
#include "forward.h"
#include "object.h"
#include <bpf/bpf_core_read.h>

#define CHECKSUM_PARTIAL 3

struct sk_buff {
	u8 ip_summed : 2;
	u16 csum_start, csum_offset, mac_header;
} __attribute__((preserve_access_index));

void *bpf_cast_to_kern_ctx(void *obj) __ksym;

// partial_checksum is where the UDP header begins in a frame whose checksum the device is to complete (veth, virtio, tun),
// or 0. Clones inherit that state, so what they carry must suit it.
INLINE u32 partial_checksum(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	if (BPF_CORE_READ_BITFIELD(skb, ip_summed) != CHECKSUM_PARTIAL)
		return 0;
	return skb->csum_start - skb->mac_header;
}

// open_datagram is a function of its own so that what it keeps on the stack is gone when the fan-out begins.
static __noinline int open_datagram(struct __sk_buff *skb, u32 *upstream)
{
	struct datagram d = {};

	if (parse_datagram(skb, &d) || d.dport != relay_port)
		return PACKET_NOT_MEDIA;
	if (d.first & LONG_HEADER)
		return PACKET_LONG_HEADER;
	if (skb->gso_segs > 1)
		return PACKET_GSO;
	return open_packet(skb, d.payload_at, d.payload_len, upstream);
}

INLINE enum reason take_packet(struct __sk_buff *skb)
{
	u32 upstream = 0;
	enum reason why = open_datagram(skb, &upstream);

	if (why != PACKET_OPENED)
		return why;
	struct scratch *c = scratch_get();
	struct upstream *up = bpf_map_lookup_elem(&upstreams, &upstream);
	if (!c || !up)
		return PACKET_NOT_MEDIA;
	enum walk_result walked = walk_frames(c, up->webtransport);
	if (walked == WALK_MALFORMED)
		return PACKET_MALFORMED;
	c->checksum_start = partial_checksum(skb);
	c->work = 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= c->frame_count)
			break;
		if (c->frames[i].type >= FRAME_DATAGRAM)
			forward_object(skb, i, upstream);
		else
			forward_stream(skb, i, upstream);
	}
	return walked == WALK_STOPPED ? PACKET_UNKNOWN_FRAME : PACKET_OPENED;
}

SEC("tc") int server_ingress(struct __sk_buff *skb)
{
	count(take_packet(skb));
	return VERDICT_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
