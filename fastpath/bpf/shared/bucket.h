// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The bucket of the bytes that a connection's path is to carry, and the pacer's, from the kernel's side:
// claim/admission.go and congestion/pacer.go explain them.
#pragma once

#include "state.h"
#include "tokens.h"

// bucket_level returns how full the bucket is, in nanoseconds of its rate.
INLINE s64 bucket_level(const struct conn_state *s, u64 now)
{
	return (s64)(now + s->bucket_burst * 1000ULL - SHARED(s->bucket_at));
}

// paced reports whether pacing holds copies back. What waits in user space goes first: the media sender sleeps until
// the pacer has tokens for a whole packet, and copies, which need only one, would take them all before.
INLINE bool paced(const struct conn_state *s)
{
	if (SHARED(s->pace_waits))
		return true;
	return s->pace_cost && SHARED(s->paced_at) >= bpf_ktime_get_ns() + s->pace_burst * 1000ULL;
}

// take_from_buckets takes the bytes of a packet from both.
INLINE void take_from_buckets(struct conn_state *s, u32 len, u64 now)
{
	take_bytes(&s->bucket_at, s->bucket_cost, s->bucket_burst, len, now);
	take_bytes(&s->paced_at, s->pace_cost, s->pace_burst, len, now);
}
