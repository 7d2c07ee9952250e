// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The packet numbers that have come on a connection, so that the kernel forwards each packet once. User space discards
// packets that come again (RFC 9000 §12.3); without this window, a publisher could make subscribers pay for them.
//
// Numbers are kept in words of 32 consecutive numbers each: number / 32 in the upper half, and a bit for each number in
// the lower half. A word changes by one compare-and-swap, so programs on several CPUs need no lock. A number whose word
// has gone on to later ones may have come: it is declined, and user space decides.
//
// The upper half has 32 bits of number / 32. That is unambiguous: numbers that differ by 2^31 or more cannot be
// decoded (RFC 9000 A.3), so the AEAD has rejected them.
#pragma once

#include "../shared/state.h"

// take_number notes that a packet has come. It returns PACKET_OPENED if it is certain that the packet has not come
// before.
INLINE enum reason take_number(struct publisher *p, u64 pn)
{
	u32 upper = pn / 32;
	u64 *word = &p->numbers[upper % NUMBER_WORDS], bit = 1ULL << (pn % 32);

	if (pn < SHARED(p->first_number))
		return PACKET_OLD;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		u64 seen = SHARED(*word);
		s32 ahead = upper - (u32)(seen >> 32);
		if (ahead < 0)
			return PACKET_OLD;
		if (!ahead && seen & bit)
			return PACKET_REPLAYED;
		u64 next = (u64)upper << 32 | bit | (ahead ? 0 : (u32)seen);
		if (__sync_bool_compare_and_swap(word, seen, next))
			return PACKET_OPENED;
	}
	return PACKET_OLD; // other CPUs are faster each time
}
