// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// A subscriber's packet, built in OUT: Ethernet, IP, UDP, the short header, one STREAM frame, sealed and protected.
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include "aead.h"
#include "checksum.h"
#include "claim.h"
#include "frames.h"
#include "neighbors.h"
#include "open.h"

#define PN_LEN 4 // always: whatever user space sends in between, the number stays decodable
#define SHORT_HEADER (FIXED_BIT | (PN_LEN - 1))
#define ETH_LEN 14
#define HOP_LIMIT 64

// frame_header_len is that of a STREAM frame without a length: type, id in four or eight bytes, offset unless it is 0.
INLINE u32 frame_header_len(u64 id, u64 offset)
{
	return 1 + (id < 1 << 30 ? 4 : 8) + (!offset ? 0 : offset < 1 << 30 ? 4 : 8);
}

// write_frame_header writes that header at p.
INLINE void write_frame_header(u8 *p, u64 id, u64 offset, u32 fin)
{
	*p++ = FRAME_STREAM | (offset ? STREAM_OFF : 0) | (fin ? STREAM_FIN : 0);
	if (id < 1 << 30) {
		*(u32 *)p = bpf_htonl(2u << 30 | (u32)id);
		p += 4;
	} else {
		*(u64 *)p = __builtin_bswap64(3ULL << 62 | id);
		p += 8;
	}
	if (!offset)
		return;
	if (offset < 1 << 30)
		*(u32 *)p = bpf_htonl(2u << 30 | (u32)offset);
	else
		*(u64 *)p = __builtin_bswap64(3ULL << 62 | offset);
}

// copy_cid writes 20 bytes: the connection ID and zeros.
INLINE void copy_cid(u8 *to, const struct path *path)
{
	const u64 *cid = (const u64 *)path->dcid;

	*(u64 *)to = cid[0];
	*(u64 *)(to + 8) = cid[1];
	*(u32 *)(to + 16) = *(u32 *)(path->dcid + 16);
}

// seal_packet seals len bytes at buf+src, and leaves the protected short header at buf+at.
__noinline int seal_packet(struct scratch *c, const struct path *path, const struct claim *cl, u32 src, u32 len)
{
	if (!c || !path || !cl || path->dcid_len > MAX_CID)
		return -1;
	struct send_keys *sk = bpf_map_lookup_elem(&keys, &cl->subscriber);
	if (!sk)
		return -1;
	struct packet_keys *k = &sk->generation[cl->generation & 3];
	u32 aad_len = 1 + path->dcid_len + PN_LEN, pn_at = aad_len - PN_LEN;
	u8 first = SHORT_HEADER | (cl->generation & 1) << KEY_PHASE_SHIFT;

	u64 *pad = (u64 *)(c->buf + OUT + PAYLOAD_AT - 32);
	pad[0] = pad[1] = pad[2] = pad[3] = 0;
	u8 *aad = c->buf + aad_at(OUT, aad_len);
	aad[0] = first;
	copy_cid(aad + 1, path);
	*(u32 *)(aad + pn_at) = bpf_htonl((u32)cl->number);
	if (aead_seal(c, k, cl->subscriber, cl->generation << GENERATION_SHIFT | cl->number, src, aad_len, len))
		return -1;
	if (header_mask(c, k, (u32 *)(c->buf + OUT + PAYLOAD_AT)))
		return -1;
	c->aad_len = aad_len;
	return 0;
}

// link_len is the length of the Ethernet header, with its VLAN tag.
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

// write_ip writes the IP header at ip, for a UDP datagram of udp_len bytes, and returns the sum of the pseudo header
// (RFC 768, RFC 8200 §8.1).
INLINE u32 write_ip(u8 *ip, const struct path *path, u32 udp_len)
{
	u32 addresses;

	if (path->v6) {
		*(u32 *)ip = bpf_htonl(6 << 28);
		*(u16 *)(ip + 4) = bpf_htons(udp_len);
		ip[6] = IPPROTO_UDP;
		ip[7] = HOP_LIMIT;
		__builtin_memcpy(ip + 8, path->saddr, 16);
		__builtin_memcpy(ip + 24, path->daddr, 16);
		addresses = sum_of(ip + 8, 32);
	} else {
		*(u32 *)ip = bpf_htonl(0x45000000 | (20 + udp_len));
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

// write_headers writes everything before the sealed payload of len bytes, tag included, and sets head and tail.
__noinline int write_headers(struct scratch *c, const struct path *path, const struct neighbor *n, u32 len)
{
	if (!c || !path || !n)
		return -1;
	u32 aad_len = c->aad_len, l3 = path->v6 ? 40 : 20;

	if (aad_len > 1 + MAX_CID + PN_LEN || aad_len < 1 + PN_LEN || len > MAX_PAYLOAD + TAG_LEN)
		return -1;
	u32 udp_len = 8 + aad_len + len;
	u8 *ip = c->buf + OUT + link_len(n), *udp = ip + l3, *quic = udp + 8;

	write_ethernet(c->buf + OUT, n, path->v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP));
	u32 pseudo = write_ip(ip, path, udp_len);

	*(u16 *)udp = path->sport;
	*(u16 *)(udp + 2) = path->dport;
	*(u16 *)(udp + 4) = bpf_htons(udp_len);
	*(u16 *)(udp + 6) = 0;
	const u8 *aad = c->buf + aad_at(OUT, aad_len);
	u32 pn_at = aad_len - PN_LEN;
	quic[0] = aad[0] ^ (c->r[0] & 0x1f);
	copy_cid(quic + 1, path);
	*(u32 *)(quic + pn_at) = *(u32 *)(aad + pn_at) ^ (c->r[0] >> 8 | c->r[1] << 24);
	*(u32 *)(quic + aad_len) = 0; // what the sum is rounded up to
	*(u64 *)(c->buf + OUT + PAYLOAD_AT + len) = 0;

	u32 header_sum = sum_of(udp, (8 + aad_len + 3) & ~3u & 63);
	u32 payload_sum = sum_of(c->buf + OUT + PAYLOAD_AT, (len + 3) & ~3u & 2047);
	if (aad_len & 1)
		payload_sum = swap_bytes(payload_sum);
	u16 checksum = ~fold((u64)pseudo + header_sum + payload_sum);
	*(u16 *)(udp + 6) = c->checksum_start ? pseudo : checksum ? checksum : 0xffff;
	c->head = link_len(n) + l3 + 8 + aad_len;
	c->tail = len;
	return 0;
}
