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

// A connection has a ring of each kind while it needs it: ring RINGS times the connection's index plus the kind.
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

// fetch_key_stream reads a word of each cache line that a payload of len bytes needs: BPF has no prefetch. User space
// has made the key stream on another CPU, perhaps. These loads wait for memory at the same time. The loads of the pass
// that applies it would wait one after the other. The function is global because the verifier would go on once for each
// iteration in which the loop can end.
GLOBAL int fetch_key_stream(const struct key_stream *k, u32 len)
{
	if (!k)
		return -1;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < LOOKAHEAD_LEN / 64; i++) {
		if (i * 64 >= len)
			break;
		SHARED(k->stream[i * 8]);
	}
	return 0;
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
	if (len > k->len) {
		put_key_stream(k, SLOT_FREE);
		return 0;
	}
	fetch_key_stream(k, len);
	return k;
}

// take_one_time_key leaves the one-time Poly1305 key in r and s.
INLINE void take_one_time_key(struct scratch *c, const struct key_stream *k)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		c->r[i] = k->one_time_key[i];
		c->s[i] = k->one_time_key[4 + i];
	}
}

GO_TYPE(enum, lookahead);
GO_TYPE(enum, slot_word);
GO_TYPE(enum, lookahead_ring);
