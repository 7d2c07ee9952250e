// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The common parts of the programs on the ports of the network host.
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <sluice/types.h>

// A lane is one direction of a link.
enum direction { FROM_HOST, TO_HOST };
#define LANE(ifindex, direction) ((ifindex) << 1 | (direction))
#define LANE_PORT(lane) ((lane) >> 1)
#define LANE_DIRECTION(lane) ((lane) & 1)

enum lane {
	LANES = 4096, // a lane's number fits a VLAN ID, because that is how the wire's packets carry it back
	LANE_DONE = 0x51ab0000, // and the lane: the mark of a packet that has had its conditions
};

#define FRAGMENT_OFFSET 0x1fff // of iphdr.frag_off: not the first fragment

// udp_offset returns the offset of the UDP header, or 0 if there is none that can be read.
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
