// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Key streams that user space has made ahead of time, with vector instructions, for the next packets of a connection.
//
// A slot belongs to the side that has exchanged its word for SLOT_TAKEN: a program that is about to seal the packet
// named there, or user space that is about to fill the slot. So neither side reads or overwrites what the other one
// uses, and a key stream is used once. The exchanges are full barriers on every architecture. A program that finds no
// key stream computes it.
#pragma once

#include "../shared/maps.h"
#include "../shared/reason.h"
#include "../shared/scratch.h"

enum lookahead {
	LOOKAHEAD = 64, // packets of a connection: a large video frame; a power of two
	LOOKAHEAD_LEN = 1472, // bytes of key stream, whole blocks
};

enum slot_word {
	SLOT_FREE = ~0ULL, // no packet number
	SLOT_TAKEN = ~1ULL, // neither
};

struct key_stream {
	u64 word; // key generation << 62 | packet number; or a slot_word
	u32 len; // bytes that were made; 0 in new memory
	u32 used; // length of the payload that was sealed with it
	u32 one_time_key[8]; // of Poly1305
	u64 pad[2];
	u64 stream[LOOKAHEAD_LEN / 8]; // from block 1 on
};
_Static_assert(sizeof(struct key_stream) == 64 + LOOKAHEAD_LEN, "key_stream is shared with user space");

LENT(lookaheads, MAX_CONNECTIONS, LOOKAHEAD, struct key_stream); // while the kernel sends to the connection

// apply_key_stream does what keystream_start and keystream_xor do, if enough was made. It is a loop in C, unlike those
// of chacha20.h: an iteration is so short that calling a callback would double its time, and 23 of them are few
// enough for the verifier.
GLOBAL int apply_key_stream(struct scratch *c, const struct key_stream *k, u32 src, u32 len)
{
	if (!c || !k || len > k->len || src > HALF)
		return 0;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		c->r[i] = k->one_time_key[i];
		c->s[i] = k->one_time_key[4 + i];
	}
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < LOOKAHEAD_LEN / 64; i++) {
		if (i * 64 >= len)
			break;
		const u64 *in = (u64 *)(c->buf + src + i * 64), *key = k->stream + i * 8;
		u64 *out = (u64 *)(c->buf + OUT + PAYLOAD_AT + i * 64);
#pragma unroll
		for (int j = 0; j < 8; j++)
			out[j] = in[j] ^ key[j];
	}
	return 1;
}

// use_key_stream takes the key stream of a connection's packet out of its slot and applies it. It returns 0 if there is
// none.
INLINE int use_key_stream(struct scratch *c, u32 connection, u64 word, u32 src, u32 len)
{
	void *ring = bpf_map_lookup_elem(&lookaheads, &connection);
	if (!ring)
		return 0;
	u32 at = word & (LOOKAHEAD - 1);
	struct key_stream *k = bpf_map_lookup_elem(ring, &at);
	if (!k || !__sync_bool_compare_and_swap(&k->word, word, SLOT_TAKEN))
		return 0;
	k->used = len;
	int done = apply_key_stream(c, k, src, len);
	__sync_lock_test_and_set(&k->word, SLOT_FREE);
	return done;
}

// lookahead_xor calls use_key_stream and counts the result.
GLOBAL int lookahead_xor(struct scratch *c, u32 connection, u64 word, u32 src, u32 len)
{
	int done = use_key_stream(c, connection, word, src, len);

	count(done ? SEAL_AHEAD : SEAL_COMPUTED);
	return done;
}

GO_TYPE(enum, lookahead);
GO_TYPE(enum, slot_word);
