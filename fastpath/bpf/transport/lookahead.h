// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Key streams that user space has made ahead of time, with vector instructions, for the next packets of a connection:
// those that it is sent, and those that come from it.
//
// A slot belongs to the side that has exchanged its word for SLOT_TAKEN: a program that is about to seal or open the
// packet named there, or user space that is about to fill the slot. So neither side reads or overwrites what the other
// one uses, and a key stream is used once. The exchanges are full barriers on every architecture. A program that finds
// no key stream computes it.
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

// A connection has a ring of each kind while it needs it: that of kind r is RINGS times the connection's index plus r.
enum lookahead_ring {
	RING_SEAL, // for packets to the peer
	RING_OPEN, // for packets from the peer; the key generation of their words is its last bit, the key phase
	RINGS,
};

struct key_stream {
	u64 word; // key generation << 62 | packet number; or a slot_word
	u32 len; // bytes that were made; 0 in new memory
	u32 used; // length of the payload that it was used for
	u32 one_time_key[8]; // of Poly1305
	u64 pad[2];
	u64 stream[LOOKAHEAD_LEN / 8]; // from block 1 on
};
_Static_assert(sizeof(struct key_stream) == 64 + LOOKAHEAD_LEN, "key_stream is shared with user space");

LENT(lookaheads, RINGS * MAX_CONNECTIONS, LOOKAHEAD, struct key_stream);

INLINE void put_key_stream(struct key_stream *k, u64 word)
{
	__sync_lock_test_and_set(&k->word, word);
}

// take_key_stream takes the key stream of a packet with a payload of len bytes out of its slot. It returns 0 if there
// is none. The caller puts it back: with SLOT_FREE, once it was used.
INLINE struct key_stream *take_key_stream(u32 ring, u64 word, u32 len)
{
	void *slots = bpf_map_lookup_elem(&lookaheads, &ring);
	if (!slots)
		return 0;
	u32 at = word & (LOOKAHEAD - 1);
	struct key_stream *k = bpf_map_lookup_elem(slots, &at);
	if (!k || !__sync_bool_compare_and_swap(&k->word, word, SLOT_TAKEN))
		return 0;
	k->used = len;
	if (len <= k->len)
		return k;
	put_key_stream(k, SLOT_FREE);
	return 0;
}

// take_one_time_key does what keystream_start does.
INLINE void take_one_time_key(struct scratch *c, const struct key_stream *k)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		c->r[i] = k->one_time_key[i];
		c->s[i] = k->one_time_key[4 + i];
	}
}

// xor_key_stream does what keystream_xor does. It is a loop in C, unlike those of chacha20.h: an iteration is so short
// that calling a callback would double its time, and 23 of them are few enough for the verifier.
GLOBAL int xor_key_stream(struct scratch *c, const struct key_stream *k, u32 src, u32 dst, u32 len)
{
	if (!c || !k || len > LOOKAHEAD_LEN || src > 2 * HALF - LOOKAHEAD_LEN || dst > 2 * HALF - LOOKAHEAD_LEN)
		return -1;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < LOOKAHEAD_LEN / 64; i++) {
		if (i * 64 >= len)
			break;
		const u64 *in = (u64 *)(c->buf + src + i * 64), *key = k->stream + i * 8;
		u64 *out = (u64 *)(c->buf + dst + i * 64);
#pragma unroll
		for (int j = 0; j < 8; j++)
			out[j] = in[j] ^ key[j];
	}
	return 0;
}

// seal_ahead encrypts buf[src, src+len) to buf+OUT+PAYLOAD_AT with the key stream of a connection's packet, if there is
// one, and leaves the one-time key. It counts what it returns: whether it has.
GLOBAL int seal_ahead(struct scratch *c, u32 connection, u64 word, u32 src, u32 len)
{
	struct key_stream *k = c ? take_key_stream(RINGS * connection + RING_SEAL, word, len) : 0;

	count(k ? SEAL_AHEAD : SEAL_COMPUTED);
	if (!k)
		return 0;
	take_one_time_key(c, k);
	int err = xor_key_stream(c, k, src, OUT + PAYLOAD_AT, len);
	put_key_stream(k, SLOT_FREE);
	return !err;
}

GO_TYPE(enum, lookahead);
GO_TYPE(enum, slot_word);
GO_TYPE(enum, lookahead_ring);
