// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The request-response protocols that are measured. A further one takes a line in MATCHERS, its setting, method and
// outcomes, and a header with two functions: is_… reports whether a UDP packet belongs to it, and …_read reads a
// message's direction and identifier.
#pragma once

#include "dns.h"
#include "ntp.h"
#include "query.h"
#include "stun.h"

#define MATCHERS(MATCHER) \
	MATCHER(dns, DNS) \
	MATCHER(ntp, NTP) \
	MATCHER(stun, STUN)

// message_read reads the message at an offset by the matcher of its method.
INLINE enum outcome message_read(const struct cursor *c, const struct packet *p, u32 at, struct message *m)
{
#define READ(name, NAME)                                     \
	case METHOD_##NAME:                                  \
		m->measured = OUTCOME_##NAME;                \
		m->unmatched = OUTCOME_##NAME##_NO_QUERY;    \
		return name##_read(c, p, at, m);
	switch (m->method) {
		MATCHERS(READ)
	}
#undef READ
	return OUTCOME_UDP_OTHER;
}

// message_measure handles one message.
INLINE enum outcome message_measure(void *ctx, bool xdp, struct packet *p, u32 at, u32 length, enum method method)
{
	struct cursor c = { .ctx = ctx, .xdp = xdp, .batched = in_batch() };
	struct message m = { .length = length, .method = method };
	enum outcome outcome;

	if (!p)
		return OUTCOME_CONTINUE;
	outcome = message_read(&c, p, at, &m);
	return outcome ?: query_measure(p, &m);
}

GLOBAL enum outcome message_skb(struct __sk_buff *skb, struct packet *p, u32 at, u32 length, enum method method)
{
	return message_measure(skb, false, p, at, length, method);
}

GLOBAL enum outcome message_xdp(struct xdp_md *xdp, struct packet *p, u32 at, u32 length, enum method method)
{
	return message_measure(xdp, true, p, at, length, method);
}

INLINE enum outcome message(struct cursor *c, struct packet *p, u32 at, u32 length, enum method method)
{
	return c->xdp ? message_xdp(c->ctx, p, at, length, method) : message_skb(c->ctx, p, at, length, method);
}

// queries_over_udp measures a packet of one of the protocols, and lets others continue.
INLINE enum outcome queries_over_udp(struct cursor *c, struct packet *p)
{
#define MATCH(name, NAME)                    \
	if (config.name && is_##name(c, p))  \
		return message(c, p, p->at, p->payload, METHOD_##NAME);
	MATCHERS(MATCH)
#undef MATCH
	return OUTCOME_CONTINUE;
}
