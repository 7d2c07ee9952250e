// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Keys of QUIC packets.
#pragma once

#include <sluice/types.h>

// A packet number and the generation of the key that protects the packet are one word, so that one addition takes both.
// The generation has two bits: no more than two generations are in use at a time. The bit below says that the numbers
// go on in another word: a sender that takes a number together with it must not use that number.
enum packet_word {
	GENERATION_SHIFT = 62,
	NUMBERS_CLOSED = 1ULL << 61,
	NUMBER_MASK = NUMBERS_CLOSED - 1,
};

// One direction's keys in one key phase, as little-endian words, the form that ChaCha20 reads.
struct packet_keys {
	u32 key[8];
	u32 hp[8];
	u32 iv[3];
	u32 pad;
};
_Static_assert(sizeof(struct packet_keys) == 80, "packet_keys is shared with user space");
