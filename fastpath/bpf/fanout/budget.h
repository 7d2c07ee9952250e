// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The budget: how much work one run may do. It bounds the time that a run keeps its CPU: in softirq, or in a worker
// of RTP with softirqs disabled.
#pragma once

#include "../shared/scratch.h"

// The largest number of subscriptions that server_ingress offers a frame to. The policy in Go decides how many of a
// track's subscribers the kernel serves; user space serves the others.
const volatile u32 max_copies = 10;

// One run, with all its frames, may do as much work as that many copies of the largest size cause. Work is measured in
// bytes; the fixed part of a copy counts as COPY_WORK bytes.
#define COPY_WORK 500

// set_budget lets a run make some copies.
INLINE void set_budget(struct scratch *c, u32 copies)
{
	c->budget = copies * (COPY_WORK + MAX_PAYLOAD);
}

// affordable reports whether the run may make one more copy with len bytes.
INLINE bool affordable(const struct scratch *c, u32 len)
{
	return COPY_WORK + len <= c->budget;
}

// spend notes a copy with len bytes.
INLINE void spend(struct scratch *c, u32 len)
{
	c->budget -= COPY_WORK + len;
}
