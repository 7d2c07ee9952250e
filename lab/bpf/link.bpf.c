// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The conditions of links: which packets are lost, marked, duplicated and reordered, and which go over the wire.
//
// Every program runs in the network host. to_host and from_host are attached to the egress and the ingress of each
// port, off_wire to the ingress of the wire's TAP device.
//go:build ignore

#include "common.h"

#define ND_FIRST 133 // router solicitation, RFC 4861
#define ND_LAST 137  // redirect

enum event {
	PACKETS,    // subject to the conditions
	EXEMPT,     // not subject: broadcast, multicast, ARP, neighbour discovery
	LOST,
	DUPLICATED,
	REORDERED,  // sent to the wire to be overtaken
	WIRED,      // sent to the wire, reordered or only delayed
	RETURNED,   // came back from the wire
	FAILED,     // dropped because the kernel refused a step
	MARKED,     // as congested (ECN-CE)
	EVENTS,
};

struct conditions {
	u64 seed;
	u64 loss, duplicate, reorder, mark; // probabilities in units of 2^-32
	u32 wire;                     // index of the wire's TAP device, 0 for the direct way
	u16 port_mask;                // address translation: XORed into the host's UDP ports
	u16 pad;
};
_Static_assert(sizeof(struct conditions) == 48, "conditions has no hidden padding");

struct events {
	u64 count[EVENTS];
};

// The header that user space reads in front of each frame on the wire.
struct wire_header {
	u64 time; // CLOCK_MONOTONIC in ns, when the packet entered the link
	u16 lane;
	u16 reordered;
	u32 pad;
};
_Static_assert(sizeof(struct wire_header) == 16, "wire_header has no hidden padding");

GO_TYPE(struct, wire_header);
GO_TYPE(enum, event);
GO_TYPE(enum, direction);
GO_TYPE(enum, lane);
GO_TYPE(enum, verdict);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES);
	__type(key, u32);
	__type(value, struct conditions);
} lanes SEC(".maps");

// How many packets each lane has decided about. It is not part of the conditions, because user space overwrites those.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES);
	__type(key, u32);
	__type(value, u64);
} sequence SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LANES);
	__type(key, u32);
	__type(value, struct events);
} counters SEC(".maps");

INLINE void count(u32 lane, enum event e)
{
	struct events *c = bpf_map_lookup_elem(&counters, &lane);

	if (c)
		c->count[e]++;
}

INLINE int fail(u32 lane)
{
	count(lane, FAILED);
	return VERDICT_DROP;
}

// draw decides about packet n. It is a pure function of the seed and n (the finalizer of SplitMix64 over a counter), so
// CPUs share no generator state, and a run can be repeated and predicted.
INLINE u32 draw(const struct conditions *c, u64 n, enum event e)
{
	u64 z = c->seed + (n * EVENTS + e + 1) * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) >> 32;
}

// exempt reports whether a packet keeps the network segment working. Such packets are not subject to the conditions:
// the path that the link stands for would not carry them.
INLINE bool exempt(struct __sk_buff *skb)
{
	u8 first, next, type;

	if (bpf_skb_load_bytes(skb, 0, &first, 1) < 0 || first & 1)
		return true;
	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return true;
	if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, 1) < 0 || next != IPPROTO_ICMPV6 ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(struct ipv6hdr), &type, 1) < 0)
		return false;
	return type >= ND_FIRST && type <= ND_LAST;
}

// translate changes the host's port as a NAT does. XOR is its own inverse, so there is no state to keep.
//
// bpf_skb_store_bytes would leave the UDP checksum wrong; bpf_l4_csum_replace updates it. BPF_F_MARK_MANGLED_0 keeps a
// checksum of 0, which means that there is none (RFC 768), and makes the helper write 0xffff if the sum becomes 0.
INLINE int translate(struct __sk_buff *skb, u16 mask, u32 direction)
{
	u32 udp = udp_offset(skb), at = udp + (direction == TO_HOST ? offsetof(struct udphdr, dest) : 0);
	u16 port, translated;

	if (!udp || bpf_skb_load_bytes(skb, at, &port, sizeof(port)) < 0)
		return 0;
	translated = port ^ bpf_htons(mask);
	if (bpf_l4_csum_replace(skb, udp + offsetof(struct udphdr, check), port, translated,
				BPF_F_MARK_MANGLED_0 | sizeof(port)) < 0)
		return -1;
	return bpf_skb_store_bytes(skb, at, &translated, sizeof(translated), 0);
}

// to_wire puts a packet on the wire, and its duplicate right behind it.
//
// bpf_skb_change_head leaves room for a link-layer header and zeros it. It also moves the MAC header, so the frame that
// the TAP device gives to user space begins with these bytes.
INLINE int to_wire(struct __sk_buff *skb, const struct conditions *c, u32 lane, bool reordered, bool duplicate)
{
	struct wire_header h = {.time = bpf_ktime_get_ns(), .lane = lane, .reordered = reordered};

	if (bpf_skb_change_head(skb, sizeof(h), 0) < 0 || bpf_skb_store_bytes(skb, 0, &h, sizeof(h), 0) < 0)
		return fail(lane);
	if (duplicate && bpf_clone_redirect(skb, c->wire, 0) < 0)
		return fail(lane);
	count(lane, WIRED);
	return bpf_redirect(c->wire, 0);
}

// direct lets a packet go on. The clone passes this program again, on its way to the same place: the mark keeps the
// conditions from applying twice.
INLINE int direct(struct __sk_buff *skb, u32 lane, bool duplicate)
{
	if (duplicate) {
		skb->mark = (LANE_DONE | lane);
		if (bpf_clone_redirect(skb, LANE_PORT(lane), LANE_DIRECTION(lane) == FROM_HOST ? BPF_F_INGRESS : 0) < 0)
			return fail(lane);
		skb->mark = 0;
	}
	return VERDICT_NEXT;
}

INLINE int cross(struct __sk_buff *skb, enum direction direction)
{
	u32 lane = LANE(skb->ifindex, direction);
	struct conditions *c = bpf_map_lookup_elem(&lanes, &lane);
	u64 *next = bpf_map_lookup_elem(&sequence, &lane), n;
	bool duplicate, reordered;

	if (skb->mark == (LANE_DONE | lane)) {
		skb->mark = 0;
		return VERDICT_NEXT;
	}
	if (!c || !next || exempt(skb)) {
		count(lane, EXEMPT);
		return VERDICT_NEXT;
	}
	n = __sync_fetch_and_add(next, 1);
	count(lane, PACKETS);
	if (draw(c, n, LOST) < c->loss) {
		count(lane, LOST);
		return VERDICT_DROP;
	}
	if (draw(c, n, MARKED) < c->mark && bpf_skb_ecn_set_ce(skb)) // not if the packet is Not-ECT
		count(lane, MARKED);
	if (c->port_mask && translate(skb, c->port_mask, direction) < 0)
		return fail(lane);
	duplicate = draw(c, n, DUPLICATED) < c->duplicate;
	if (duplicate)
		count(lane, DUPLICATED);
	if (!c->wire)
		return direct(skb, lane, duplicate);
	reordered = draw(c, n, REORDERED) < c->reorder;
	if (reordered)
		count(lane, REORDERED);
	return to_wire(skb, c, lane, reordered, duplicate);
}

SEC("tc")
int to_host(struct __sk_buff *skb)
{
	return cross(skb, TO_HOST);
}

SEC("tc")
int from_host(struct __sk_buff *skb)
{
	return cross(skb, FROM_HOST);
}

SEC("tc")
int off_wire(struct __sk_buff *skb)
{
	u32 lane = skb->vlan_tci & (LANES - 1);

	if (!skb->vlan_present || bpf_skb_vlan_pop(skb) < 0)
		return fail(lane);
	count(lane, RETURNED);
	skb->mark = (LANE_DONE | lane);
	return bpf_redirect(LANE_PORT(lane), LANE_DIRECTION(lane) == FROM_HOST ? BPF_F_INGRESS : 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
