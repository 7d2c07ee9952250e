// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The headers around a sealed packet: Ethernet, IP, UDP.
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include "../transport/checksum.h"
#include "../transport/transport.h"
#include "neighbors.h"

#define ETH_LEN 14
#define HOP_LIMIT 64

// link_len returns the length of the Ethernet header, with its VLAN tag.
INLINE u32 link_len(const struct neighbor *n)
{
	return ETH_LEN + (n->vlan_proto ? sizeof(struct vlan_tag) : 0);
}

// write_ethernet writes the Ethernet header at p.
INLINE void write_ethernet(u8 *p, const struct neighbor *n, __be16 proto)
{
	__builtin_memcpy(p, n->dmac, 6);
	__builtin_memcpy(p + 6, n->smac, 6);
	*(__be16 *)(p + 12) = proto;
	if (n->vlan_proto) {
		*(__be16 *)(p + 12) = n->vlan_proto;
		*(__be16 *)(p + 14) = n->vlan_tci;
		*(__be16 *)(p + 16) = proto;
	}
}

// write_ip writes the IP header at ip, for a UDP datagram of udp_len bytes, with ECN bits, and returns the sum of the
// pseudo header (RFC 768, RFC 8200 §8.1).
INLINE u32 write_ip(u8 *ip, const struct path *path, u32 udp_len, u32 ecn)
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

// udp_checksum returns the checksum of the UDP header at udp, the QUIC header of aad_len bytes behind it, and the
// sealed payload of len bytes, tag included.
//
// The helper sums whole words only, so the bytes behind each of the two pieces are zeroed; and the second piece counts
// as if it followed the first, which can have an odd length.
INLINE u16 udp_checksum(struct scratch *c, u8 *udp, u32 aad_len, u32 len, u32 pseudo)
{
	*(u32 *)(udp + 8 + aad_len) = 0;
	*(u64 *)(c->buf + OUT + PAYLOAD_AT + len) = 0;
	u32 header_sum = sum_of(udp, (8 + aad_len + 3) & ~3u & 63);
	u32 payload_sum = sum_of_payload(c->buf + OUT + PAYLOAD_AT, (len + 3) & ~3u & 2047);
	if (aad_len & 1)
		payload_sum = swap_bytes(payload_sum);
	u16 checksum = ~fold((u64)pseudo + header_sum + payload_sum);
	return checksum ? checksum : 0xffff;
}

// write_headers writes everything in front of the sealed payload of len bytes, tag included, and sets head and tail.
//
// If the device is to complete the checksum, the field holds the sum of the pseudo header, and the device adds the rest
// (transport/offload.h).
GLOBAL int write_headers(struct scratch *c, const struct path *path, const struct neighbor *n, u32 len)
{
	if (!c || !path || !n)
		return -1;
	u32 aad_len = c->aad_len, l3 = path->v6 ? 40 : 20;

	if (aad_len > MAX_SHORT_HEADER || aad_len < 1 + PN_LEN || len > MAX_PAYLOAD + TAG_LEN)
		return -1;
	u32 udp_len = 8 + aad_len + len;
	u8 *ip = c->buf + OUT + link_len(n), *udp = ip + l3, *quic = udp + 8;

	write_ethernet(c->buf + OUT, n, path->v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP));
	u32 pseudo = write_ip(ip, path, udp_len, c->claim.ecn & ECN_MASK);

	*(u16 *)udp = path->sport;
	*(u16 *)(udp + 2) = path->dport;
	*(u16 *)(udp + 4) = bpf_htons(udp_len);
	*(u16 *)(udp + 6) = 0;
	const u8 *header = c->buf + aad_at(OUT, aad_len);
#pragma unroll
	for (int i = 0; i < 3; i++) // 28 bytes in all cases, up to where the header itself may lie
		*(u64 *)(quic + 8 * i) = *(const u64 *)(header + 8 * i);
	*(u32 *)(quic + 24) = *(const u32 *)(header + 24);
	*(u16 *)(udp + 6) = c->checksum_start ? pseudo : udp_checksum(c, udp, aad_len, len, pseudo);
	c->head = link_len(n) + l3 + 8 + aad_len;
	c->tail = len;
	return 0;
}
