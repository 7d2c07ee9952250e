// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Keys of QUIC packets.
#pragma once

#include <sluice/types.h>

// A packet number and the generation of the key that protects the packet are one word, so that one addition takes both.
// The generation has two bits: no more than two generations are in use at a time.
enum packet_word {
	GENERATION_SHIFT = 62,
	NUMBER_MASK = (1ULL << GENERATION_SHIFT) - 1,
};

// One direction's keys in one key phase, as little-endian words, the form that ChaCha20 reads.
struct packet_keys {
	u32 key[8];
	u32 hp[8];
	u32 iv[3];
	u32 pad;
};
_Static_assert(sizeof(struct packet_keys) == 80, "packet_keys is shared with user space");
