// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What the fan-out of streams and of datagrams have in common: where a copy goes, what it may cost, and how it leaves.
#pragma once

#include "build.h"
#include "prefix.h"

// Subscriptions that a frame is offered to: the Go policy sets the track's, this is the ceiling.
const volatile u32 max_copies = 10;

// One packet may cause as much work as max_copies copies of the largest size: that bounds the time in softirq also when it
// has many frames. Work is measured in bytes, of which a copy's fixed part is worth COPY_WORK.
#define COPY_WORK 500

struct fan_out {
	struct __sk_buff *skb;
	struct scratch *c;
	const struct track *track;
	union {
		const struct subgroup *subgroup; // of a STREAM frame
		struct object_claim *object; // of a DATAGRAM frame
	};
};

// find_route looks up how the claim's subscriber is reached.
INLINE enum reason find_route(const struct scratch *c, const struct claim *cl, struct path **path, struct neighbor **n)
{
	*path = bpf_map_lookup_elem(&paths, &cl->subscriber);
	if (!*path)
		return COPY_NO_PATH;
	*n = bpf_map_lookup_elem(&neighbors, (*path)->daddr);
	if (!*n)
		return COPY_NO_NEIGHBOR;
	if (c->checksum_start && c->checksum_start != link_len(*n) + ((*path)->v6 ? 40 : 20))
		return COPY_CHECKSUM;
	return COPY_SENT;
}

// affordable says if the packet may cause one more copy with len bytes.
INLINE int affordable(const struct scratch *c, u32 len)
{
	return c->work + COPY_WORK + len <= max_copies * (COPY_WORK + MAX_PAYLOAD);
}

// send_clone sends a clone that client_egress turns into the packet that lies in OUT.
INLINE enum reason send_clone(const struct fan_out *f, const struct neighbor *n)
{
	f->c->armed = 1;
	int err = bpf_clone_redirect(f->skb, n->ifindex, 0);
	if (!err && !f->c->armed)
		return COPY_SENT;
	f->c->armed = 0;
	return COPY_LOST;
}

// count_copy counts what became of a copy, also for its subscriber: publishers on other CPUs may send it something at the same time.
INLINE void count_copy(u32 subscriber, u32 why)
{
	struct copy_counts *c = bpf_map_lookup_elem(&copies, &subscriber);

	count(why);
	if (c && why >= COPY_SENT && why < REASON_COUNT)
		__sync_fetch_and_add(&c->by_reason[why - COPY_SENT], 1);
}
