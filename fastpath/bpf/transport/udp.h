// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// From an Ethernet frame to the UDP datagram in it. Anything but a whole UDP datagram without IP options or extension
// headers is left to the stack: media does not come that way, and the stack handles it all.
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include "checksum.h"

// UDP ports that the relay listens on, in network byte order: for QUIC, and for RTP of RTSP clients (0: none).
const volatile u16 relay_port = 0;
const volatile u16 rtp_port = 0;

#define MAX_VLAN_TAGS 2
#define FRAGMENT_MASK 0x3fff // more fragments, or a fragment offset
#define ETH_P_8021Q_BE bpf_htons(ETH_P_8021Q)
#define ETH_P_8021AD_BE bpf_htons(ETH_P_8021AD)

struct vlan_tag {
	__be16 tci;
	__be16 proto; // of the header that follows
};

// The longest headers up to the first byte of the UDP payload, and that byte.
#define MAX_HEADERS (sizeof(struct ethhdr) + MAX_VLAN_TAGS * sizeof(struct vlan_tag) + sizeof(struct ipv6hdr) + \
		     sizeof(struct udphdr) + 1)

struct datagram {
	u8 saddr[16], daddr[16]; // IPv4 in the first four bytes, the rest zero
	u32 payload_at; // in the frame
	u32 payload_len; // as the UDP header says
	u32 ip_at;
	u32 ip_payload_len; // as the IP header says
	u16 ip_sum; // of the header's words: 0xffff if its checksum is right. IPv6 has none
	__be16 checksum; // of UDP
	__be16 sport, dport;
	u8 v6;
	u8 first; // byte of the payload
	u8 pad[6];
} __attribute__((aligned(8)));

INLINE u16 ip_header_sum(const struct iphdr *ip)
{
	const u16 *word = (const u16 *)ip;
	u32 sum = 0;

#pragma unroll
	for (u32 i = 0; i < sizeof(*ip) / 2; i++)
		sum += word[i];
	return fold(sum);
}

// parse_datagram fills d, and returns 0, or -1 when the frame is something else.
//
// A program reads packet data directly only between data and data_end, which delimit the linear part of the buffer, as
// the driver has filled it: some put nothing there but the Ethernet header. bpf_skb_pull_data moves the headers in. It
// may move the whole packet, so every pointer into it is invalid afterwards, and the verifier insists on reading data
// and data_end again.
GLOBAL int parse_datagram(struct __sk_buff *skb, struct datagram *d)
{
	if (!d)
		return -1;
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	u32 want = skb->len < MAX_HEADERS ? skb->len : MAX_HEADERS;

	if (data + want > end && bpf_skb_pull_data(skb, want))
		return -1;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;

	struct ethhdr *eth = data;
	if ((void *)(eth + 1) > end)
		return -1;
	__be16 proto = eth->h_proto;
	void *at = eth + 1;
#pragma unroll
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		if (proto != ETH_P_8021Q_BE && proto != ETH_P_8021AD_BE)
			break;
		struct vlan_tag *tag = at;
		if ((void *)(tag + 1) > end)
			return -1;
		proto = tag->proto;
		at = tag + 1;
	}

	struct udphdr *udp;
	d->ip_at = at - data;
	__builtin_memset(d->saddr, 0, 32);
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = at;
		if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
		    ip->frag_off & bpf_htons(FRAGMENT_MASK))
			return -1;
		d->v6 = 0;
		d->ip_sum = ip_header_sum(ip);
		d->ip_payload_len = bpf_ntohs(ip->tot_len) - sizeof(*ip);
		__builtin_memcpy(d->saddr, &ip->saddr, 4);
		__builtin_memcpy(d->daddr, &ip->daddr, 4);
		udp = (void *)(ip + 1);
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = at;
		if ((void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
			return -1;
		d->v6 = 1;
		d->ip_sum = 0xffff;
		d->ip_payload_len = bpf_ntohs(ip->payload_len);
		__builtin_memcpy(d->saddr, &ip->saddr, 16);
		__builtin_memcpy(d->daddr, &ip->daddr, 16);
		udp = (void *)(ip + 1);
	} else {
		return -1;
	}
	if ((void *)(udp + 1) + 1 > end)
		return -1;
	u32 len = bpf_ntohs(udp->len);
	d->payload_at = (void *)(udp + 1) - data;
	if (len <= sizeof(*udp) || d->payload_at + len - sizeof(*udp) > skb->len)
		return -1;
	d->payload_len = len - sizeof(*udp);
	d->checksum = udp->check;
	d->sport = udp->source;
	d->dport = udp->dest;
	d->first = *(u8 *)(udp + 1);
	return 0;
}
