// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The bucket of the bytes that a connection's path is to carry, from the kernel's side: claim/admission.go explains it.
#pragma once

#include "state.h"

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

// bucket_level returns how full the bucket is, in nanoseconds of its rate.
INLINE s64 bucket_level(const struct conn_state *s, u64 now)
{
	return (s64)(now + s->bucket_burst * 1000ULL - SHARED(s->bucket_at));
}

// take_from_bucket takes the bytes of a packet. The debt is at most as much as the bucket holds. If others are faster
// for a few times, the packet is free.
INLINE void take_from_bucket(struct conn_state *s, u32 len, u64 now)
{
	u64 cost = s->bucket_cost, latest = now + s->bucket_burst * 2000ULL;

	if (!cost)
		return;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		u64 at = SHARED(s->bucket_at), from = at > now ? at : now;
		if (from > latest)
			from = latest;
		if (__sync_bool_compare_and_swap(&s->bucket_at, at, from + (len * cost >> 10)))
			return;
	}
}
