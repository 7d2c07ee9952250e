// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The policy layer: may this copy go now?
//
// What it promises to the fan-out: may_go decides, and changes nothing, so the fan-out can ask before anything is
// taken. A copy that may not go is declined with the reason that may_go returns, and the media sender decides about its
// bytes.
//
// The rules are user space's own, and a test compares them. Rules that are a matter of opinion are in admit, which an
// operator's program may replace (admission.h). The window, pacing and the path's MTU are not: they are looked at
// afterwards. Flow control credit is taken with the claim (shared/claim.h).
#pragma once

#include "../shared/bucket.h"
#include "../shared/scratch.h"
#include "question.h"

// describe adds what the built-in admit does not look at.
INLINE void describe(struct admission *a, const struct conn_state *s, const struct claim *cl)
{
	struct scratch *c = scratch_get();

	if (!c)
		return;
	a->age = 0; // the packet has just come
	a->group = c->group;
	a->window = s->window;
	a->in_flight = SHARED(s->in_flight);
	a->packet_len = cl->packet_len;
}

// ask_policy asks about a copy.
static __noinline int ask_policy(const struct conn_state *s, const struct claim *cl)
{
	struct admission *a = new_question();

	if (!a)
		return COPY_POLICY;
	a->level = cl->level;
	a->threshold = s->threshold;
	a->bucket_cost = s->bucket_cost;
	if (a->bucket_cost || replaced) {
		a->now = bpf_ktime_get_ns();
		a->bucket_burst = s->bucket_burst * 1000ULL;
		a->bucket = a->bucket_cost ? bucket_level(s, a->now) : 0;
		a->bucket_class = a->bucket_cost ? bucket_class(s->bounds, cl->level) : 0;
	}
	if (replaced)
		describe(a, s, cl);
	return ask_admit(a);
}

// may_go returns COPY_SENT if a copy may go.
INLINE enum reason may_go(const struct conn_state *s, const struct claim *cl)
{
	enum reason why = ask_policy(s, cl);
	if (why != COPY_SENT)
		return why;
	if (cl->packet_len > s->mtu)
		return COPY_TOO_LARGE;
	if (SHARED(s->in_flight) + cl->packet_len > s->window)
		return COPY_WINDOW;
	if (paced(s))
		return COPY_PACED;
	return COPY_SENT;
}
