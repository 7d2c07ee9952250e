// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Ingress of the device that leads to publishers and subscribers: opens publishers' packets and sends copies of the
// media in them to subscribers. Every packet passes on to user space unchanged, whatever becomes of it here.
//go:build ignore

#include "transport/transport.h"
#include "fanout/fanout.h"

// note_arrival leaves the time in the scratch.
static __noinline void note_arrival(void)
{
	struct scratch *c = scratch_get();

	if (c)
		c->arrived = time_if_measuring();
}

// open_datagram opens a packet that the stack would hand to the relay's socket, and that has not come before. It is a
// function of its own so that its stack is free again when the fan-out begins.
static __noinline int open_datagram(struct __sk_buff *skb, u32 *publisher, u32 *checksum_start)
{
	struct datagram d = {};

	if (parse_datagram(skb, &d) || d.dport != relay_port)
		return PACKET_NOT_MEDIA;
	if (d.first & LONG_HEADER)
		return PACKET_LONG_HEADER;
	if (!(d.first & FIXED_BIT))
		return PACKET_INVALID;
	note_arrival();
	if (skb->gso_size)
		return PACKET_GSO;
	enum reason why = accept_headers(skb, &d);
	if (why != PACKET_OPENED)
		return why;
	why = open_packet(skb, d.payload_at, d.payload_len, publisher);
	if (why != PACKET_OPENED)
		return why;
	struct path *path = find_path(*publisher);
	if (!path || !accept_path(&d, &path->udp))
		return PACKET_OTHER_PATH;
	return accept_checksum(skb, &d, checksum_start) ? PACKET_OPENED : PACKET_CHECKSUM;
}

// make_linear moves a packet that is going to be cloned into one piece. Segments of a GSO sender on this machine, and
// what some drivers hand over, lie in fragments: each clone would copy itself out of them when its contents are
// exchanged. All pointers into the packet are invalid afterwards. If there is no memory, clones work all the same.
static __noinline int make_linear(struct __sk_buff *skb)
{
	if (skb->len > skb->data_end - skb->data)
		return bpf_skb_pull_data(skb, skb->len);
	return 0;
}

INLINE enum reason take_packet(struct __sk_buff *skb)
{
	u32 publisher = 0, checksum_start = 0;
	enum reason why = open_datagram(skb, &publisher, &checksum_start);

	if (why != PACKET_OPENED)
		return why;
	struct scratch *c = scratch_get();
	struct publisher *p = publishers_at(publisher);
	if (!c || !p)
		return PACKET_NOT_MEDIA;
	why = take_number(p, c->pn);
	if (why != PACKET_OPENED)
		return why;
	enum walk_result walked = walk_frames(c);
	if (walked == WALK_MALFORMED)
		return PACKET_MALFORMED;
	if (c->frame_count)
		make_linear(skb);
	c->publisher = publisher;
	c->checksum_start = checksum_start;
	set_budget(c, max_copies);
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
