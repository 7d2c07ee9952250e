// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The budget: how much work one packet may cause. It bounds the time that a packet keeps its CPU in softirq.
#pragma once

#include "../shared/scratch.h"

// The largest number of subscriptions that a frame is offered to. The policy in Go decides how many a track has.
const volatile u32 max_copies = 10;

// One packet, with all its frames, may cause as much work as max_copies copies of the largest size. Work is measured in
// bytes; the fixed part of a copy counts as COPY_WORK bytes.
#define COPY_WORK 500

// affordable reports whether the packet may cause one more copy with len bytes.
INLINE bool affordable(const struct scratch *c, u32 len)
{
	return c->work + COPY_WORK + len <= max_copies * (COPY_WORK + MAX_PAYLOAD);
}

// spend notes a copy with len bytes.
INLINE void spend(struct scratch *c, u32 len)
{
	c->work += COPY_WORK + len;
}
