// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Computes the key stream of a packet (RFC 9001 §5.3, RFC 8439 §2.8). lookahead.h has key streams that were made ahead
// of time.
#pragma once

#include "../shared/keys.h"
#include "chacha20.h"

// compute_key_stream leaves the one-time Poly1305 key of packet number pn in r and s, and len bytes of its key stream
// where computed_stream says.
INLINE int compute_key_stream(struct scratch *c, const struct packet_keys *k, u64 pn, u32 len)
{
	chacha20_init(c->state, k->key, 0, k->iv[0], k->iv[1] ^ bpf_htonl((u32)(pn >> 32)),
		      k->iv[2] ^ bpf_htonl((u32)pn));
	if (chacha20_half_block(c))
		return -1;
	c->state[12] = 1; // block 0 made the Poly1305 key
	return chacha20_stream(c, len);
}

// header_mask leaves the header protection mask of a 16-byte sample in r (RFC 9001 §5.4.4).
INLINE int header_mask(struct scratch *c, const struct packet_keys *k, const u32 *sample)
{
	chacha20_init(c->state, k->hp, sample[0], sample[1], sample[2], sample[3]);
	return chacha20_half_block(c);
}
