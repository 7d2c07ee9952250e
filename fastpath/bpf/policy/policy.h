// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The policy layer: may this copy go now?
//
// What it promises to the fan-out: may_go decides, and changes nothing, so the fan-out can ask before anything is
// taken. A copy that may not go is declined with the reason that may_go returns, and the media sender decides what
// becomes of its bytes.
//
// The rules are user space's own (claim/admission.go explains the bucket), and a test compares them. Those that are a
// matter of opinion are in admit, for which a program may stand in; the relay loads none (admission.h). The window and
// the path's MTU are not: they are looked at afterwards. Flow control credit is taken with the claim (shared/claim.h).
#pragma once

#include "../shared/bucket.h"
#include "../shared/reason.h"
#include "../shared/scratch.h"
#include "admission.h"

const volatile u32 replaced = 0; // another program stands in for admit: nothing sets it

// The question is in memory, because the stack is full where it is asked.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct admission);
} questions SEC(".maps");

// admit is the function that a program of BPF_PROG_TYPE_EXT may stand in for. It is global for that, and the compiler
// must not know what it returns.
GLOBAL int admit(struct admission *a)
{
	int answer = ADMIT;

	if (!a)
		return DECLINE;
	if (a->level > a->threshold)
		answer = DECLINE_PRIORITY;
	else if (a->bucket_cost && a->bucket_class && a->bucket <= (s64)(a->bucket_burst * (a->bucket_class - 1) / 4))
		answer = DECLINE_BUCKET;
	barrier_var(answer);
	return answer;
}

// ask_policy asks about a packet of some length, which is 0 for a stream that is about to be opened.
static __noinline int ask_policy(const struct conn_state *s, const struct claim *cl, u32 packet_len)
{
	u32 zero = 0;
	struct admission *a = bpf_map_lookup_elem(&questions, &zero);
	struct scratch *c = scratch_get();

	if (!a || !c)
		return COPY_POLICY;
	a->bucket_cost = s->bucket_cost;
	a->now = a->bucket_cost || replaced ? bpf_ktime_get_ns() : 0;
	a->age = c->position && a->now ? a->now - c->job.since : 0;
	a->group = c->group;
	a->window = s->window;
	a->in_flight = SHARED(s->in_flight);
	a->bucket_burst = s->bucket_burst * 1000ULL;
	a->bucket = a->bucket_cost ? bucket_level(s, a->now) : 0;
	a->bucket_class = bucket_class(s->bounds, cl->level);
	a->level = cl->level;
	a->threshold = s->threshold;
	a->packet_len = packet_len;
	a->subscriber = cl->subscriber;
	switch (admit(a)) {
	case ADMIT:
		return COPY_SENT;
	case DECLINE_PRIORITY:
		return COPY_PRIORITY;
	case DECLINE_BUCKET:
		return COPY_BUCKET;
	}
	return COPY_POLICY;
}

// may_go returns COPY_SENT if a copy of some length may go.
INLINE enum reason may_go(const struct conn_state *s, const struct claim *cl, u32 packet_len)
{
	enum reason why = ask_policy(s, cl, packet_len);
	if (why != COPY_SENT || !packet_len)
		return why;
	if (packet_len > s->mtu)
		return COPY_TOO_LARGE;
	if (SHARED(s->in_flight) + packet_len > s->window)
		return COPY_WINDOW;
	return COPY_SENT;
}
