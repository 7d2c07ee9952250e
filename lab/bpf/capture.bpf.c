// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Records when UDP packets pass the egress of a device: the device of a host, for packets that leave the host, or its
// port, for packets that arrive.
//go:build ignore

#include "common.h"

#define RING_SIZE (16 << 20) // 0.29 M packets: 5 s of 600 Mbit/s
#define HASHED 32

struct packet {
	u64 time;                  // CLOCK_MONOTONIC, ns
	u64 hash;                  // of the first 32 bytes of the UDP payload
	u8 source[16], target[16]; // IPv4 as IPv4-mapped IPv6 address
	u16 source_port, target_port;
	u16 length;                // of the UDP payload
	u16 segment;               // UDP GSO cuts the payload into datagrams of this length; 0 if it does not
	u32 point;
};
_Static_assert(sizeof(struct packet) == 64, "packet has no padding");

GO_TYPE(struct, packet);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_SIZE);
} packets SEC(".maps");

// Packets that did not fit the ring.
u64 overflow;

// Index of the point that this program watches.
volatile const u32 point;

INLINE int read_addresses(struct __sk_buff *skb, struct packet *p)
{
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, saddr), p->source, 32);
	p->source[10] = p->source[11] = p->target[10] = p->target[11] = 0xff;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, saddr), p->source + 12, 4) < 0)
		return -1;
	return bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, daddr), p->target + 12, 4);
}

INLINE int read_udp(struct __sk_buff *skb, struct packet *p, u32 at)
{
	struct udphdr udp;
	u64 head[HASHED / 8] = {};
	u32 n;

	if (bpf_skb_load_bytes(skb, at, &udp, sizeof(udp)) < 0 || bpf_ntohs(udp.len) < sizeof(udp))
		return -1;
	p->source_port = bpf_ntohs(udp.source);
	p->target_port = bpf_ntohs(udp.dest);
	p->length = bpf_ntohs(udp.len) - sizeof(udp);
	n = p->length < HASHED ? p->length : HASHED;
	if (n && bpf_skb_load_bytes(skb, at + sizeof(udp), head, n) < 0)
		return -1;
	p->hash = p->length;
	for (int i = 0; i < HASHED / 8; i++)
		p->hash = (p->hash ^ head[i]) * 0x9e3779b97f4a7c15 ^ p->hash >> 32;
	return 0;
}

SEC("tc")
int record(struct __sk_buff *skb)
{
	struct packet p = {.time = bpf_ktime_get_ns(), .segment = skb->gso_size, .point = point};
	u32 udp = udp_offset(skb);

	if (!udp || read_addresses(skb, &p) < 0 || read_udp(skb, &p, udp) < 0)
		return VERDICT_NEXT;
	// The reader polls: waking it would cost the machine under test a context switch for each packet.
	if (bpf_ringbuf_output(&packets, &p, sizeof(p), BPF_RB_NO_WAKEUP) < 0)
		__sync_fetch_and_add(&overflow, 1);
	return VERDICT_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
