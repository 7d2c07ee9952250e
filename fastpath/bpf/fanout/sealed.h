// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The headers around a sealed packet.
#pragma once

#include "../transport/transport.h"
#include "headers.h"

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
	u32 aad_len = c->aad_len, l3 = path->udp.v6 ? 40 : 20;

	if (aad_len > MAX_SHORT_HEADER || aad_len < 1 + PN_LEN || len > MAX_PAYLOAD + TAG_LEN)
		return -1;
	u32 udp_len = 8 + aad_len + len;
	u8 *ip = c->buf + OUT + ETH_HLEN, *udp = ip + l3, *quic = udp + 8;

	write_ethernet(c->buf + OUT, n, path->udp.v6);
	u32 pseudo = write_ip(ip, &path->udp, udp_len, c->claim.ecn & ECN_MASK);

	*(u16 *)udp = path->udp.sport;
	*(u16 *)(udp + 2) = path->udp.dport;
	*(u16 *)(udp + 4) = bpf_htons(udp_len);
	*(u16 *)(udp + 6) = 0;
	const u8 *header = c->buf + aad_at(OUT, aad_len);
#pragma unroll
	for (int i = 0; i < 3; i++) // 28 bytes in all cases, up to where the header itself may lie
		*(u64 *)(quic + 8 * i) = *(const u64 *)(header + 8 * i);
	*(u32 *)(quic + 24) = *(const u32 *)(header + 24);
	*(u16 *)(udp + 6) = c->checksum_start ? pseudo : udp_checksum(c, udp, aad_len, len, pseudo);
	c->head = ETH_HLEN + l3 + 8 + aad_len;
	c->tail = len;
	return 0;
}
