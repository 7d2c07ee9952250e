// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The latency of queries. A query and its response have the same ends, method and identifier.
#pragma once

#include "message.h"
#include "report.h"

#define QUERY_TIMEOUT (10 * SECOND)
#define QUERY_PEER_BITS 12

struct query_key {
	struct flow_key flow;
	u64 id;
	u32 id_rest;
	u8 side; // the side that sent the query
	u8 method;
	u8 pad[2];
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

// How many queries wait, by a hash of who sent them: an IPv4 address, or an IPv6 /64, which is one host's (RFC 4291
// §2.5.1). So a peer has a share of the table, and cannot keep out the queries of others. Two peers with the same hash
// have one share.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << QUERY_PEER_BITS);
	__type(key, u32);
	__type(value, u32);
} query_peers SEC(".maps");

INLINE u32 *query_peer(const struct query_key *key)
{
	const union address *a = &key->flow.address[key->side & 1];
	u64 peer = a->halves[0] ?: a->halves[1];
	u32 index = peer * 0x9e3779b97f4a7c15ull >> (64 - QUERY_PEER_BITS);

	return bpf_map_lookup_elem(&query_peers, &index);
}

// query_add adds a query to the table, unless its sender has its share of that.
INLINE enum outcome query_add(const struct query_key *key, const struct query *q, const struct message *m)
{
	u32 *waiting = query_peer(key);
	long failed;

	if (!waiting || *waiting >= config.query_share) {
		tally(TALLY_QUERIES_SHARE);
		return OUTCOME_QUERIES_SHARE;
	}
	failed = bpf_map_update_elem(&queries, key, q, BPF_NOEXIST);
	if (!failed)
		__sync_fetch_and_add(waiting, 1);
	if (!failed || failed == -EEXIST) // another CPU has just added it
		return m->measured;
	tally(TALLY_QUERIES_FULL);
	return OUTCOME_QUERIES_FULL;
}

// query_delete removes a query, and returns whether it was there. Only one of two CPUs removes it.
INLINE bool query_delete(const struct query_key *key)
{
	u32 *waiting = query_peer(key);

	if (bpf_map_delete_elem(&queries, key))
		return false;
	if (waiting)
		__sync_fetch_and_add(waiting, -1);
	return true;
}

// query_new stores a query. A second query with the same key makes the latency ambiguous.
INLINE enum outcome query_new(struct packet *p, const struct query_key *key, const struct message *m)
{
	struct query new = { .time = packet_time(p), .sent = 1, .bytes = m->length };
	struct query *q = bpf_map_lookup_elem(&queries, key);

	if (q && packet_time(p) - q->time <= QUERY_TIMEOUT) {
		q->sent++;
		q->bytes += m->length;
		tally(TALLY_QUERIES_REPEATED);
		return m->measured;
	}
	if (q)
		query_delete(key); // nobody will answer it now
	return query_add(key, &new, m);
}

INLINE void query_report(struct packet *p, const struct query_key *key, const struct query *q,
			 const struct message *m)
{
	struct event *e;
	u64 rtt = packet_time(p) - q->time;

	if (q->sent == 1) {
		tally(TALLY_RTTS);
		if (config.aggregate)
			prefix_query(p, key->side, rtt);
	}
	e = flow_event(false, &p->key, key->side, EVENT_RTT, packet_time(p));
	if (!e)
		return;
	e->method = m->method;
	e->egress = p->egress;
	e->rtt = rtt;
	e->min_rtt = rtt;
	e->sent_packets = q->sent;
	e->sent_bytes = q->bytes;
	e->received_packets = 1;
	e->received_bytes = m->length;
	e->query_type = m->query_type;
	e->rcode = m->rcode;
	e->flags = (q->sent > 1 ? EVENT_AMBIGUOUS : 0) | (m->truncated ? EVENT_TRUNCATED : 0);
	event_send(e, packet_time(p));
}

// query_answer measures the latency of a response's query.
INLINE enum outcome query_answer(struct packet *p, const struct query_key *key, const struct message *m)
{
	struct query *q = bpf_map_lookup_elem(&queries, key), query;

	if (!q)
		return m->unmatched;
	query = *q;
	if (!query_delete(key))
		return m->unmatched;
	if (!rtt_is_late(packet_time(p) - query.time))
		query_report(p, key, &query, m);
	return m->measured;
}

// query_measure takes a message that was read.
GLOBAL enum outcome query_measure(struct packet *p, const struct message *m)
{
	struct query_key key = {};

	if (!p || !m)
		return OUTCOME_CONTINUE;
	key.flow = p->key;
	key.id = m->id;
	key.id_rest = m->id_rest;
	key.method = m->method;
	key.side = m->response ? other(p->side) : p->side & 1;
	if (m->response)
		return query_answer(p, &key, m);
	if (for_this_host(p))
		return OUTCOME_LOCAL;
	return query_new(p, &key, m);
}
