// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Computes the key stream of a packet (RFC 9001 §5.3, RFC 8439 §2.8). lookahead.h has key streams that were made ahead
// of time.
#pragma once

#include "../shared/keys.h"
#include "chacha20.h"

// keystream_start leaves the one-time Poly1305 key of packet number pn in the scratch.
INLINE int keystream_start(struct scratch *c, const struct packet_keys *k, u64 pn)
{
	chacha20_init(c->state, k->key, 0, k->iv[0], k->iv[1] ^ bpf_htonl((u32)(pn >> 32)),
		      k->iv[2] ^ bpf_htonl((u32)pn));
	int err = chacha20_half_block(c);

	c->state[12] = 1; // block 0 made the Poly1305 key
	return err;
}

// keystream_xor applies the key stream that keystream_start began to len bytes from buf+src to buf+dst.
INLINE int keystream_xor(struct scratch *c, u32 src, u32 dst, u32 len)
{
	return chacha20_xor(c, src, dst, len);
}

// header_mask leaves the header protection mask of a 16-byte sample in r (RFC 9001 §5.4.4).
INLINE int header_mask(struct scratch *c, const struct packet_keys *k, const u32 *sample)
{
	chacha20_init(c->state, k->hp, sample[0], sample[1], sample[2], sample[3]);
	return chacha20_half_block(c);
}
