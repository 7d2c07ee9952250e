// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The common parts of copies of STREAM and DATAGRAM frames.
#pragma once

#include "../application/application.h"
#include "../policy/policy.h"
#include "../shared/claim.h"
#include "../shared/delay.h"
#include "budget.h"
#include "clone.h"
#include "route.h"
#include "sealed.h"

// A frame on its way to the subscriptions of its track: the context of the callback of bpf_loop.
struct fan_out {
	struct __sk_buff *skb;
	struct scratch *c;
	const struct track *part; // of the list of subscriptions: see subscription_at
	union {
		const struct subgroup *subgroup; // of a STREAM frame
		struct object_claim *object; // of a DATAGRAM frame
	};
};

// subscription_at returns the subscription at position i of the list, or 0 behind its end. Calls go from one position
// to the next.
INLINE const struct subscription *subscription_at(struct fan_out *f, u32 i)
{
	u32 at = i % PART_LEN;

	if (i >= f->part->count)
		return 0;
	if (!at && i) {
		const struct track *part = find_subscriptions(f->c->track, f->c->list_version, i / PART_LEN);
		if (!part)
			return 0;
		f->part = part; // never 0: the verifier looks at this function once more than it is called
	}
	return &f->part->subscriptions[at];
}

// find_route looks up how the claim's subscriber is reached.
INLINE enum reason find_route(const struct claim *cl, struct path **path, struct neighbor **n)
{
	*path = find_path(cl->subscriber);
	return *path ? find_neighbor(&(*path)->udp, n) : COPY_NO_PATH;
}

// admit_claim asks the policy about the claim's packet. If window or pacing hold it back, it notes that for the
// congestion controller, whose window grows only while it is used. It is a function of its own because of the stack of
// those that make copies.
static __noinline int admit_claim(const struct claim *cl)
{
	struct conn_state *s = connections_at(cl->subscriber);
	if (!s)
		return COPY_NO_PATH;
	enum reason why = may_go(s, cl);

	if (why == COPY_WINDOW || why == COPY_PACED)
		SHARED(s->limited_to) = SHARED(s->next_pn) & NUMBER_MASK;
	return why;
}

// count_copy counts what became of a copy, in total and for its connection, to which programs on other CPUs may be
// sending, too.
INLINE void count_copy(const struct scratch *c, u32 subscriber, u32 why)
{
	struct copy_counts *n = copies_at(subscriber);

	count(why);
	if (n && why >= COPY_SENT && why < REASON_COUNT)
		__sync_fetch_and_add(&n->by_reason[why - COPY_SENT], 1);
	if (why == COPY_SENT)
		note_delay(c);
}
