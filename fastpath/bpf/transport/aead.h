// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// AEAD_CHACHA20_POLY1305 (RFC 8439 §2.8) on packets that lie in the scratch as shared/scratch.h describes. Opening and
// sealing share every step.
#pragma once

#include "keystream.h"
#include "lookahead.h"
#include "poly1305.h"

// aead_mac puts into tag the authenticator of the ciphertext at buf+half+PAYLOAD_AT. It overwrites the 32 bytes behind
// it.
GLOBAL int aead_mac(struct scratch *c, u32 half, u32 aad_len, u32 len)
{
	if (!c || len > MAX_PAYLOAD || aad_len > MAX_AAD || half > HALF)
		return -1;
	u32 end = half + PAYLOAD_AT + len, lengths = half + PAYLOAD_AT + ((len + 15) & ~15u);

	if (end > 2 * HALF - 32 || lengths > 2 * HALF - 32)
		return -1;
	u64 *pad = (u64 *)(c->buf + end);
	pad[0] = 0;
	pad[1] = 0;
	u64 *block = (u64 *)(c->buf + lengths);
	block[0] = aad_len;
	block[1] = len;
	u32 aad_blocks = aad_len > 16 ? 2 : 1;

	return poly1305(c, half + PAYLOAD_AT - 16 * aad_blocks, aad_blocks + (len + 15) / 16 + 1);
}

// aead_seal encrypts buf[src, src+len) to buf+OUT+PAYLOAD_AT and puts the tag behind it. word is the packet's number
// with the generation of the key, of a connection with that index. The associated data has aad_len bytes, a field of
// the scratch: one argument more would be one word more on the stack while ChaCha20 runs.
INLINE int aead_seal(struct scratch *c, const struct packet_keys *k, u32 connection, u64 word, u32 src, u32 len)
{
	if (len > MAX_PAYLOAD || src > HALF)
		return -1;
	if (!seal_ahead(c, connection, word, src, len) &&
	    (keystream_start(c, k, word & NUMBER_MASK) || keystream_xor(c, src, OUT + PAYLOAD_AT, len)))
		return -1;
	if (aead_mac(c, OUT, c->aad_len, len))
		return -1;
	// The verifier has forgotten the bound of len by now. The compiler has not, and would drop the second comparison as
	// redundant: barrier_var hides the bound from it.
	barrier_var(len);
	if (len > MAX_PAYLOAD)
		return -1;
	u64 *tag = (u64 *)(c->buf + OUT + PAYLOAD_AT + len);
	tag[0] = c->tag[0];
	tag[1] = c->tag[1];
	return 0;
}

enum { AEAD_OPENED = 0, AEAD_REJECTED = 1 };

// aead_verify compares the tag behind len bytes of ciphertext with their authenticator, without a branch on its bytes.
INLINE int aead_verify(struct scratch *c, u32 aad_len, u32 len)
{
	const u64 *tag = (u64 *)(c->buf + IN + PAYLOAD_AT + len);
	u64 t0 = tag[0], t1 = tag[1]; // aead_mac overwrites them

	if (aead_mac(c, IN, aad_len, len))
		return -1;
	return (c->tag[0] ^ t0) | (c->tag[1] ^ t1) ? AEAD_REJECTED : AEAD_OPENED;
}

// aead_open verifies and then decrypts in place len bytes of ciphertext, whose tag follows them. word is the packet's
// number with the key phase, of a connection with that index. It returns a negative value when an argument is out of
// range. A packet that is rejected leaves its key stream for the packet that has the number.
INLINE int aead_open(struct scratch *c, const struct packet_keys *k, u32 connection, u64 word, u32 aad_len, u32 len)
{
	if (len > MAX_PAYLOAD)
		return -1;
	struct key_stream *ahead = take_key_stream(RINGS * connection + RING_OPEN, word, len);
	count(ahead ? OPEN_AHEAD : OPEN_COMPUTED);
	if (ahead)
		take_one_time_key(c, ahead);
	else if (keystream_start(c, k, word & NUMBER_MASK))
		return -1;
	int err = aead_verify(c, aad_len, len);
	if (!ahead)
		return err ? err : keystream_xor(c, IN + PAYLOAD_AT, IN + PAYLOAD_AT, len);
	if (!err)
		err = xor_key_stream(c, ahead, IN + PAYLOAD_AT, IN + PAYLOAD_AT, len);
	put_key_stream(ahead, err ? word : SLOT_FREE);
	return err;
}
