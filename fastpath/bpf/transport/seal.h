// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Sealing a short header packet for a subscriber: AEAD (RFC 9001 §5.3) and header protection (§5.4).
#pragma once

#include "../shared/state.h"
#include "open.h"

#define PN_LEN 4 // always: the number stays decodable, however many numbers user space takes in between
#define SHORT_HEADER (FIXED_BIT | (PN_LEN - 1))
#define MAX_SHORT_HEADER (1 + MAX_CID + PN_LEN)

// packet_len is the length of a QUIC packet with frames of len bytes.
INLINE u32 packet_len(const struct path *path, u32 len)
{
	return 1 + path->dcid_len + PN_LEN + len + TAG_LEN;
}

// copy_cid writes 20 bytes: the connection ID and zeros.
INLINE void copy_cid(u8 *to, const struct path *path)
{
	const u64 *cid = (const u64 *)path->dcid;

	*(u64 *)to = cid[0];
	*(u64 *)(to + 8) = cid[1];
	*(u32 *)(to + 16) = *(u32 *)(path->dcid + 16);
}

// protect_header protects the header in front of the sealed payload. It is a function of its own to keep the stack of
// seal_packet small, below which ChaCha20 takes 256 bytes.
static __noinline int protect_header(struct scratch *c, const struct packet_keys *k)
{
	u32 aad_len = c->aad_len;

	if (aad_len > MAX_SHORT_HEADER || aad_len < 1 + PN_LEN ||
	    header_mask(c, k, (u32 *)(c->buf + OUT + PAYLOAD_AT)))
		return -1;
	u8 *header = c->buf + aad_at(OUT, aad_len);
	header[0] ^= c->r[0] & 0x1f;
	*(u32 *)(header + aad_len - PN_LEN) ^= c->r[0] >> 8 | c->r[1] << 24;
	return 0;
}

// seal_packet seals len bytes of frames at buf+src for the claim's packet. It leaves the protected header, aad_len
// bytes, at aad_at(OUT, aad_len), and payload and tag at OUT + PAYLOAD_AT.
GLOBAL int seal_packet(struct scratch *c, const struct path *path, const struct claim *cl, u32 src, u32 len)
{
	if (!c || !path || !cl || path->dcid_len > MAX_CID)
		return -1;
	struct send_keys *sk = keys_at(cl->subscriber);
	if (!sk)
		return -1;
	struct packet_keys *k = &sk->generation[cl->generation & 3];
	u32 aad_len = 1 + path->dcid_len + PN_LEN, pn_at = aad_len - PN_LEN;
	c->aad_len = aad_len;
	u8 first = SHORT_HEADER | (cl->generation & 1) << KEY_PHASE_SHIFT;

	u64 *pad = (u64 *)(c->buf + OUT + PAYLOAD_AT - 32);
	pad[0] = pad[1] = pad[2] = pad[3] = 0;
	u8 *aad = c->buf + aad_at(OUT, aad_len);
	aad[0] = first;
	copy_cid(aad + 1, path);
	*(u32 *)(aad + pn_at) = bpf_htonl((u32)cl->number);
	if (aead_seal(c, k, cl->subscriber, cl->generation << GENERATION_SHIFT | cl->number, src, len))
		return -1;
	return protect_header(c, k);
}
