// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The latency of DNS queries, over UDP and TCP. A query and its response have the same ends, id and question.
#pragma once

#include "dns.h"
#include "report.h"

#define QUERY_TIMEOUT (10 * SECOND)

// DNS_MESSAGES_MAX is how many messages of a TCP segment are measured: clients pipeline few (RFC 7766 §6.2.1).
#define DNS_MESSAGES_MAX 4

struct query_key {
	struct flow_key flow;
	u64 question;
	u16 id;
	u8 side; // the side that sent the query
	u8 pad[5];
};
_Static_assert(sizeof(struct query_key) == 64, "query_key has no hidden padding");

struct query {
	u64 time; // of the first query, ns
	u32 sent; // number of queries
	u32 bytes; // of all queries
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct query_key);
	__type(value, struct query);
} queries SEC(".maps");

// query_new stores a query. A second query with the same key makes the latency ambiguous.
INLINE enum outcome query_new(struct packet *p, const struct query_key *key, u32 bytes)
{
	struct query new = { .time = packet_time(p), .sent = 1, .bytes = bytes };
	struct query *q = bpf_map_lookup_elem(&queries, key);

	if (q && packet_time(p) - q->time <= QUERY_TIMEOUT) {
		q->sent++;
		q->bytes += bytes;
		tally(TALLY_QUERIES_REPEATED);
		return OUTCOME_DNS;
	}
	if (bpf_map_update_elem(&queries, key, &new, BPF_ANY) == 0)
		return OUTCOME_DNS;
	tally(TALLY_QUERIES_FULL);
	return OUTCOME_QUERIES_FULL;
}

INLINE void query_report(struct packet *p, const struct query_key *key, const struct query *q,
			 const struct dns_message *m)
{
	struct event *e;
	u64 rtt = packet_time(p) - q->time;

	if (q->sent == 1)
		rtt_count(&p->key, key->side, rtt);
	e = config.events ? event_new(false) : NULL;
	if (!e)
		return;
	event_ends(e, &p->key, key->side);
	e->type = EVENT_RTT;
	e->time = packet_time(p);
	e->method = METHOD_QUERY;
	e->egress = p->egress;
	e->rtt = rtt;
	e->min_rtt = rtt;
	e->sent_packets = q->sent;
	e->sent_bytes = q->bytes;
	e->received_packets = 1;
	e->received_bytes = m->length;
	e->query_type = m->type;
	e->rcode = m->flags & DNS_RCODE;
	e->flags = (q->sent > 1 ? EVENT_AMBIGUOUS : 0) | (m->flags & DNS_TRUNCATED ? EVENT_TRUNCATED : 0);
	event_send(e, packet_time(p));
}

// query_answer measures the latency of a response's query.
INLINE enum outcome query_answer(struct packet *p, const struct query_key *key, const struct dns_message *m)
{
	struct query *q = bpf_map_lookup_elem(&queries, key), query;

	if (!q)
		return OUTCOME_DNS_NO_QUERY;
	query = *q;
	if (bpf_map_delete_elem(&queries, key) != 0)
		return OUTCOME_DNS_NO_QUERY;
	if (packet_time(p) - query.time > QUERY_TIMEOUT)
		tally(TALLY_RTTS_LATE);
	else
		query_report(p, key, &query, m);
	return OUTCOME_DNS;
}

// dns_measure takes a message whose question was hashed.
GLOBAL enum outcome dns_measure(struct packet *p, const struct dns_message *m)
{
	struct query_key key = {};
	bool response;

	if (!p || !m)
		return OUTCOME_CONTINUE;
	response = m->flags & DNS_RESPONSE;
	if (response ? port_from(p) != DNS_PORT : port_to(p) != DNS_PORT)
		return OUTCOME_DNS_OTHER;
	key.flow = p->key;
	key.question = m->question;
	key.id = m->id;
	key.side = response ? other(p->side) : p->side & 1;
	if (response)
		return query_answer(p, &key, m);
	if (for_this_host(p))
		return OUTCOME_LOCAL;
	return query_new(p, &key, m->length);
}

INLINE bool is_dns(struct packet *p)
{
	return p->key.port[0] == DNS_PORT || p->key.port[1] == DNS_PORT;
}

// dns_message handles one message.
INLINE enum outcome dns_message(void *ctx, bool xdp, struct packet *p, u32 at, u32 length)
{
	struct cursor c = { .ctx = ctx, .xdp = xdp };
	struct dns_message m = { .length = length };
	enum outcome outcome;

	if (!p)
		return OUTCOME_CONTINUE;
	outcome = dns_read(&c, at, &m);
	outcome = outcome ?: dns_hash(&m);
	return outcome ?: dns_measure(p, &m);
}

GLOBAL enum outcome dns_message_skb(struct __sk_buff *skb, struct packet *p, u32 at, u32 length)
{
	return dns_message(skb, false, p, at, length);
}

GLOBAL enum outcome dns_message_xdp(struct xdp_md *xdp, struct packet *p, u32 at, u32 length)
{
	return dns_message(xdp, true, p, at, length);
}

INLINE enum outcome dns_over_udp(struct cursor *c, struct packet *p)
{
	return c->xdp ? dns_message_xdp(c->ctx, p, p->at, p->payload) : dns_message_skb(c->ctx, p, p->at, p->payload);
}

// dns_over_tcp walks the messages of a segment, each after its length (RFC 1035 §4.2.2). A segment that does not begin
// with a message matches nothing. The last message may continue in the next segment if its question is complete.
INLINE enum outcome dns_over_tcp(struct cursor *c, struct packet *p, u32 at)
{
	u32 end = at + p->payload, left, n;
	enum outcome outcome = OUTCOME_DNS_OTHER;
	u16 length;

	for (int i = 0; i < DNS_MESSAGES_MAX; i++) {
		if (at + sizeof(length) > end || !cursor_copy(c, at, &length, sizeof(length)))
			break;
		at += sizeof(length);
		left = end - at;
		n = bpf_ntohs(length);
		if (n > left && port_to(p) == DNS_PORT)
			break; // a cut query is not measured: these may be bytes from the middle of a message
		left = n < left ? n : left;
		outcome = c->xdp ? dns_message_xdp(c->ctx, p, at, left) : dns_message_skb(c->ctx, p, at, left);
		at += n;
	}
	return outcome;
}
