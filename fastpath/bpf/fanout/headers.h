// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The headers of a copy: Ethernet and IP.
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include "../shared/udp_path.h"
#include "../transport/checksum.h"
#include "neighbors.h"

#define HOP_LIMIT 64

// write_ethernet writes the Ethernet header of a packet to an IPv4 or IPv6 address at p. A VLAN tag lies beside it.
INLINE void write_ethernet(u8 *p, const struct neighbor *n, bool v6)
{
	__builtin_memcpy(p, n->dmac, 6);
	__builtin_memcpy(p + 6, n->smac, 6);
	*(__be16 *)(p + ETH_PROTO_AT) = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
}

// write_ip writes the IP header at ip, for a UDP datagram of udp_len bytes, with ECN bits, and returns the sum of the
// pseudo header (RFC 768, RFC 8200 §8.1).
INLINE u32 write_ip(u8 *ip, const struct udp_path *path, u32 udp_len, u32 ecn)
{
	u32 addresses;

	if (path->v6) {
		*(u32 *)ip = bpf_htonl(6 << 28 | ecn << 20);
		*(u16 *)(ip + 4) = bpf_htons(udp_len);
		ip[6] = IPPROTO_UDP;
		ip[7] = HOP_LIMIT;
		__builtin_memcpy(ip + 8, path->saddr, 16);
		__builtin_memcpy(ip + 24, path->daddr, 16);
		addresses = sum_of(ip + 8, 32);
	} else {
		*(u32 *)ip = bpf_htonl(0x45000000 | ecn << 16 | (20 + udp_len));
		*(u32 *)(ip + 4) = bpf_htonl(0x4000); // do not fragment
		ip[8] = HOP_LIMIT;
		ip[9] = IPPROTO_UDP;
		*(u16 *)(ip + 10) = 0;
		__builtin_memcpy(ip + 12, path->saddr, 4);
		__builtin_memcpy(ip + 16, path->daddr, 4);
		*(u16 *)(ip + 10) = ~sum_of(ip, 20);
		addresses = sum_of(ip + 12, 8);
	}
	return fold((u64)addresses + bpf_htons(IPPROTO_UDP) + bpf_htons(udp_len));
}
