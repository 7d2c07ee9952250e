// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// One packet, from its first byte to its outcome.
#pragma once

#include "dns_tcp.h"
#include "icmp.h"
#include "quic_rtt.h"
#include "tcp_rtt.h"
#include "tunnel.h"

INLINE enum outcome measure_tcp(struct cursor *c, struct packet *p)
{
	enum outcome outcome, dns = OUTCOME_CONTINUE;
	struct segment t = {};

	if (!config.tcp && !config.dns)
		return OUTCOME_OTHER_PROTOCOL;
	outcome = tcp_parse(c, p, &t);
	if (outcome)
		return outcome;
	if (config.dns && p->payload && is_dns(c, p))
		dns = dns_over_tcp(c, p, t.at);
	outcome = config.tcp ? tcp_measure(p, &t) : OUTCOME_OTHER_PROTOCOL;
	return config.dns ? dns_outcome_tcp(p, dns, outcome) : outcome;
}

INLINE enum outcome measure_udp(struct cursor *c, struct packet *p)
{
	enum outcome outcome;

	if (!config.dns && !config.ntp && !config.stun && !config.quic)
		return OUTCOME_OTHER_PROTOCOL;
	outcome = udp_parse(c, p);
	outcome = outcome ?: queries_over_udp(c, p);
	if (outcome)
		return outcome;
	outcome = config.quic ? quic_measure(c, p) : OUTCOME_UDP_OTHER;
	return config.dns ? dns_outcome_udp(p, outcome) : outcome;
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
	if (p->key.protocol == IP_UDP)
		return measure_udp(c, p);
	if (config.icmp && p->key.protocol == (p->ipv6 ? IP_ICMPV6 : IP_ICMP))
		return measure_icmp(c, p);
	return OUTCOME_OTHER_PROTOCOL;
}

// is_ip reports whether the addresses of a packet with this outcome are known.
INLINE bool is_ip(enum outcome outcome)
{
	return outcome != OUTCOME_NOT_IP && (outcome < OUTCOME_LINK_TRUNCATED || outcome > OUTCOME_IPV6_EXTENSIONS);
}

// measure_traffic counts a packet, whether or not it is measured.
INLINE void measure_traffic(struct counter_set *n, struct packet *p, bool ip)
{
	if (config.traffic)
		traffic_add(&n->transport[ip ? ip_transport(p) : TRANSPORT_NOT_IP], p);
	if (config.traffic && ip)
		traffic_add(&n->ecn[p->ecn & 3], p);
	if (config.aggregate && ip)
		prefix_count(p);
}

// measure returns nothing, because every packet passes.
INLINE void measure(struct cursor *c, struct packet *p, bool has_link)
{
	struct counter_set *n = counters_get();
	enum outcome outcome;

	p->frame = c->length;
	p->class = TRAFFIC_OTHER;
	outcome = has_link ? link_parse(c, p) : link_none(c, p);
	outcome = outcome ?: ip_parse(c, p);
	if (config.tunnels)
		outcome = tunnel_look(c, p, outcome);
	outcome = outcome ?: measure_transport(c, p);
	if (!n || outcome >= OUTCOME_COUNT)
		return;
	n->outcome[outcome]++;
	measure_traffic(n, p, is_ip(outcome));
}
