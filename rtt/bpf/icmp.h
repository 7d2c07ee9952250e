// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// ICMP (RFC 792) and ICMPv6 (RFC 4443) echo: the identifier stands for both ports, the sequence number is stamped.
#pragma once

#include "flow_table.h"
#include "ip.h"

#define ICMP_ECHO_REPLY 0
#define ICMP_ECHO_REQUEST 8
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY 129

struct icmp_echo {
	u8 type;
	u8 code;
	u16 checksum;
	u16 id;
	u16 sequence;
};

INLINE enum outcome icmp_parse(struct cursor *c, struct packet *p, struct icmp_echo *h)
{
	u8 request = p->ipv6 ? ICMPV6_ECHO_REQUEST : ICMP_ECHO_REQUEST;
	u8 reply = p->ipv6 ? ICMPV6_ECHO_REPLY : ICMP_ECHO_REPLY;

	if (p->length < sizeof(*h) || !cursor_read(c, p->at, h, sizeof(*h)))
		return OUTCOME_ICMP_MALFORMED;
	p->payload = p->length - sizeof(*h);
	if ((h->type != request && h->type != reply) || h->code)
		return OUTCOME_ICMP_NO_ECHO;
	packet_key(p, h->id, h->id);
	// A host that pings itself is both ends: the request is side 0's.
	if (p->key.address[0].halves[0] == p->key.address[1].halves[0] &&
	    p->key.address[0].halves[1] == p->key.address[1].halves[1])
		p->side = h->type == reply;
	return OUTCOME_CONTINUE;
}

INLINE void icmp_request(struct packet *p, struct flow *f, u16 sequence)
{
	struct side *s = flow_side(f, p->side);

	if (!stampable(p, s))
		return;
	flow_await(p, s, OPEN_FIRST_PACKET);
	if (s->identified && s->id == sequence)
		return;
	s->identified = true;
	s->id = sequence;
	if (rate_due(p, s, &s->stamped))
		stamp_sender(p, f, STAMP_TIMESTAMP, sequence);
}

INLINE void icmp_reply(struct packet *p, struct flow *f, u16 sequence)
{
	u64 time;

	flow_answered(p, f);
	time = stamp_answer(p, f, other(p->side), STAMP_TIMESTAMP, sequence);
	if (time)
		rtt_report(p, f, other(p->side), METHOD_ECHO, packet_time(p) - time);
}

GLOBAL enum outcome icmp_measure(struct packet *p, const struct icmp_echo *h)
{
	struct flow *f;
	bool request;

	if (!p || !h)
		return OUTCOME_CONTINUE;
	request = h->type == ICMP_ECHO_REQUEST || h->type == ICMPV6_ECHO_REQUEST;
	f = flow_find(p);
	if (!f && (!request || for_this_host(p)))
		return request ? OUTCOME_LOCAL : OUTCOME_ICMP_NO_FLOW;
	if (!f)
		f = flow_create(p);
	if (!f)
		return OUTCOME_FLOWS_FULL;
	flow_count(p, f);
	if (request)
		icmp_request(p, f, bpf_ntohs(h->sequence));
	else
		icmp_reply(p, f, bpf_ntohs(h->sequence));
	return OUTCOME_ICMP;
}
