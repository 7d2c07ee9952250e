// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Classes of levels, and how bytes are taken from a bucket, for all protocols. claim/admission.go explains both.
#pragma once

#include "maps.h"

// bucket_class returns the class of a level, by four bounds of 16 bits.
INLINE u32 bucket_class(u64 bounds, u32 level)
{
	u32 class = 0;

#pragma unroll
	for (u32 i = 0; i < 4; i++)
		if (class == i && level > (u32)(bounds >> 16 * i & 0xffff))
			class++;
	return class;
}

// take_bytes takes the bytes of a packet from a bucket that is full at some time, and takes cost ns to fill by 1024
// bytes and burst µs to get full. The debt is at most as much as the bucket holds. If others are faster for a few
// times, the packet is free.
INLINE void take_bytes(u64 *full_at, u64 cost, u64 burst, u32 len, u64 now)
{
	u64 latest = now + burst * 2000;

	if (!cost)
		return;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		u64 at = SHARED(*full_at), from = at > now ? at : now;
		if (from > latest)
			from = latest;
		if (__sync_bool_compare_and_swap(full_at, at, from + (len * cost >> 10)))
			return;
	}
}
