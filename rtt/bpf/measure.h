// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// One packet, from its first byte to its outcome.
#pragma once

#include "icmp.h"
#include "link.h"
#include "tcp_rtt.h"

INLINE enum outcome measure_tcp(struct cursor *c, struct packet *p)
{
	struct segment t = {};
	enum outcome outcome;

	if (!config.tcp)
		return OUTCOME_OTHER_PROTOCOL;
	outcome = tcp_parse(c, p, &t);
	return outcome ?: tcp_measure(p, &t);
}

INLINE enum outcome measure_icmp(struct cursor *c, struct packet *p)
{
	struct icmp_echo h = {};
	enum outcome outcome = icmp_parse(c, p, &h);

	return outcome ?: icmp_measure(p, &h);
}

INLINE enum outcome measure_transport(struct cursor *c, struct packet *p)
{
	if (p->key.protocol == IP_TCP)
		return measure_tcp(c, p);
	if (config.icmp && p->key.protocol == (p->ipv6 ? IP_ICMPV6 : IP_ICMP))
		return measure_icmp(c, p);
	return OUTCOME_OTHER_PROTOCOL;
}

// measure returns nothing: whatever a packet holds, it passes.
INLINE void measure(struct cursor *c, struct packet *p, bool has_link)
{
	struct counter_set *n = counters_get();
	enum outcome outcome;

	p->time = clock_now();
	outcome = has_link ? link_parse(c, p) : link_none(c, p);
	outcome = outcome ?: ip_parse(c, p);
	outcome = outcome ?: measure_transport(c, p);
	if (n && outcome < OUTCOME_COUNT)
		n->outcome[outcome]++;
}
