// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Entry points: one for each hook and kind of device, the clean-up of the tables, and the flush of batches.
//go:build ignore

#include "expire.h"
#include "measure.h"

INLINE int measure_skb(struct __sk_buff *skb, bool egress, bool has_link)
{
	struct packet *p = packet_new();
	struct cursor c;

	if (!p)
		return VERDICT_NEXT;
	p->interface = skb->ifindex;
	p->segments = skb->gso_segs ?: 1;
	p->segment_size = skb->gso_size;
	p->vlan = skb->vlan_present ? skb->vlan_tci & VLAN_ID : 0;
	p->egress = egress;
	cursor_of_skb(&c, skb);
	measure(&c, p, has_link);
	return VERDICT_NEXT;
}

INLINE int measure_xdp(struct xdp_md *xdp, bool has_link)
{
	struct packet *p = packet_new();
	struct cursor c;

	if (!p)
		return XDP_PASS;
	p->interface = xdp->ingress_ifindex;
	p->segments = 1;
	cursor_of_xdp(&c, xdp);
	measure(&c, p, has_link);
	return XDP_PASS;
}

SEC("tcx/ingress")
int ingress(struct __sk_buff *skb)
{
	return measure_skb(skb, false, true);
}

SEC("tcx/egress")
int egress(struct __sk_buff *skb)
{
	return measure_skb(skb, true, true);
}

SEC("tcx/ingress")
int ingress_ip(struct __sk_buff *skb)
{
	return measure_skb(skb, false, false);
}

SEC("tcx/egress")
int egress_ip(struct __sk_buff *skb)
{
	return measure_skb(skb, true, false);
}

SEC("xdp.frags")
int xdp_ingress(struct xdp_md *xdp)
{
	return measure_xdp(xdp, true);
}

SEC("xdp.frags")
int xdp_ingress_ip(struct xdp_md *xdp)
{
	return measure_xdp(xdp, false);
}

// replay_packet shows the first packet of a batch, which is behind its struct replayed, and moves the start of the data
// to the next one. It returns 0 at the end of the batch.
GLOBAL int replay_packet(struct xdp_md *xdp)
{
	struct replayed *r = (void *)(long)xdp->data;
	struct packet *p = packet_new();
	struct cursor c;

	if (!p || (void *)(r + 1) > (void *)(long)xdp->data_end)
		return 0;
	replay.now = r->now;
	replay.length = r->length;
	replay.captured = r->captured;
	if (bpf_xdp_adjust_head(xdp, sizeof(*r)))
		return 0;
	p->segments = 1;
	cursor_of_xdp(&c, xdp);
	c.batched = true; // also if nothing of the packet was captured
	measure(&c, p, true);
	return !bpf_xdp_adjust_head(xdp, replay.captured);
}

#define REPLAY_MAX 128

// User space runs this over packets of a capture, one behind the other, and reads the number of them that were seen.
// The kernel could also repeat a program, but changes its own text for each repetition of XDP programs, which takes
// milliseconds.
SEC("xdp")
int replay_batch(struct xdp_md *xdp)
{
	u32 n = 0;

	while (n < REPLAY_MAX && replay_packet(xdp))
		n++;
	return n;
}

static long look_at_flow(void *map, const struct flow_key *at, const struct flow *f, const u64 *now)
{
	struct flow_key key = *at; // the map only accepts a key on the stack

	flow_expire(&key, f, *now);
	return 0;
}

static long look_at_query(void *map, const struct query_key *at, const struct query *q, const u64 *now)
{
	struct query_key key = *at;

	query_expire(&key, q, *now);
	return 0;
}

// User space runs this, and the next one, when entries can have timed out. Programs of this kind may be preempted, so
// that a large table delays nobody. Iterators of the kernel would do the same, but some kernels refuse to load those
// that may change entries.
SEC("syscall")
int expire_flows(void *ctx)
{
	u64 now = clock_now();

	expiry_begin(EXPIRING_FLOWS, now, UNCONFIRMED_TIMEOUT);
	bpf_for_each_map_elem(&flows, look_at_flow, &now, 0);
	return 0;
}

SEC("syscall")
int expire_queries(void *ctx)
{
	u64 now = clock_now();

	expiry_begin(EXPIRING_QUERIES, now, QUERY_TIMEOUT);
	bpf_for_each_map_elem(&queries, look_at_query, &now, 0);
	return 0;
}

// User space runs this on each CPU at intervals, so that the last events of a burst do not wait for the next packet.
SEC("raw_tp")
int flush(void *ctx)
{
	struct batch *b = batch_enter();

	if (!b)
		return 0;
	batch_send(b);
	batch_leave(b);
	return 0;
}

GO_TYPE(enum, outcome);
GO_TYPE(enum, tally);
GO_TYPE(enum, transport);
GO_TYPE(enum, event_type);
GO_TYPE(enum, event_flag);
GO_TYPE(enum, bins);
GO_TYPE(enum, open_reason);
GO_TYPE(enum, close_reason);
GO_TYPE(enum, trigger);
GO_TYPE(enum, method);
GO_TYPE(enum, side_state);
GO_TYPE(enum, spin_class);
GO_TYPE(enum, traffic_class);
GO_TYPE(enum, prefix_flag);
GO_TYPE(enum, expiring);

char _license[] SEC("license") = "Dual BSD/GPL";
