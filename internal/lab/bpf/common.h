// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What the programs on the ports of the network host share.
#pragma once

#include <stddef.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define INLINE static __always_inline

// A lane is one direction of a link. Its number fits a VLAN ID, because that is how the wire's packets carry it back.
#define LANES 4096
enum direction { FROM_HOST, TO_HOST };
#define LANE(ifindex, direction) ((ifindex) << 1 | (direction))
#define LANE_PORT(lane) ((lane) >> 1)
#define LANE_DIRECTION(lane) ((lane) & 1)

// A packet whose mark names the lane has had its conditions: it is a duplicate, or comes back from the wire.
#define DONE(lane) (0x51ab0000 | (lane))

#define FRAGMENT_OFFSET 0x1fff // of iphdr.frag_off: not the first fragment

// The offset of the UDP header, 0 if there is none that can be read.
INLINE u32 udp_offset(struct __sk_buff *skb)
{
	struct iphdr ip;
	u8 next;

	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, 1) < 0 || next != IPPROTO_UDP)
			return 0;
		return ETH_HLEN + sizeof(struct ipv6hdr);
	}
	if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return 0;
	if (ip.protocol != IPPROTO_UDP || ip.frag_off & bpf_htons(FRAGMENT_OFFSET))
		return 0;
	return ETH_HLEN + ip.ihl * 4;
}
