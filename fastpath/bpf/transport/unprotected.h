// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What aead.h and keystream.h promise, without packet protection: payloads are in the clear, a constant stands for the
// tag, and headers are not masked. A build for labs has programs with this header instead of those: what they save is
// what packet protection costs.
#pragma once

#include "lookahead.h" // user space knows its map, which these programs do not use

// "UNPROTECTED-QUIC", as in internal/packet.
#define UNPROTECTED_TAG_0 0x4345544f52504e55ULL
#define UNPROTECTED_TAG_1 0x434955512d444554ULL

INLINE int header_mask(struct scratch *c, const struct packet_keys *k, const u32 *sample)
{
	c->r[0] = c->r[1] = 0;
	return 0;
}

// copy_payload copies buf[src, src+len) to buf+OUT+PAYLOAD_AT, in a loop as in aead.h.
GLOBAL int copy_payload(struct scratch *c, u32 src, u32 len)
{
	if (!c || len > MAX_PAYLOAD || src > HALF)
		return -1;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < (MAX_PAYLOAD + 63) / 64; i++) {
		if (i * 64 >= len)
			break;
		const u64 *in = (u64 *)(c->buf + src + i * 64);
		u64 *out = (u64 *)(c->buf + OUT + PAYLOAD_AT + i * 64);
#pragma unroll
		for (int j = 0; j < 8; j++)
			out[j] = in[j];
	}
	return 0;
}

INLINE int aead_seal(struct scratch *c, const struct packet_keys *k, u32 connection, u64 word, u32 src, u32 len)
{
	if (copy_payload(c, src, len))
		return -1;
	barrier_var(len); // see aead.h
	if (len > MAX_PAYLOAD)
		return -1;
	u64 *tag = (u64 *)(c->buf + OUT + PAYLOAD_AT + len);
	tag[0] = UNPROTECTED_TAG_0;
	tag[1] = UNPROTECTED_TAG_1;
	return 0;
}

INLINE int aead_open(struct scratch *c, const struct packet_keys *k, u32 connection, u64 word, u32 aad_len, u32 len)
{
	if (len > MAX_PAYLOAD)
		return -1;
	const u64 *tag = (u64 *)(c->buf + IN + PAYLOAD_AT + len);

	return tag[0] != UNPROTECTED_TAG_0 || tag[1] != UNPROTECTED_TAG_1;
}
