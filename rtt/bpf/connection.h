// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// QUIC connections whose client gets another address or port, as when a NAT has forgotten it (RFC 9000 §9). The client
// does not know, and goes on with the server's connection ID. A client that moves because it wants to takes another
// connection ID, so that nobody can follow (§9.5).
//
// Anybody who sees a connection ID can send it from anywhere. So the first packet from a new address only creates a
// flow that may become the connection's. It does when the server sends to that address, which it does only after it has
// opened a packet from there. Until then, the connection's flow goes on. A flow without the server's packets gives way
// to others as any flow that is not confirmed.
//
// Somebody with a connection of his own can make the server send to an address from which he sent another's ID. So
// nothing moves to where two IDs came from, nor while the client goes on where it was.
#pragma once

#include "flow_table.h"
#include "loss_bits.h"

// A client that has sent nothing from its old address for this time is not there: a packet may have come late.
#define MOVE_SILENCE SECOND

// A connection is found by the first bytes of the server's ID, because a short header does not tell how long it is. Of
// connections with the same bytes, the last to begin is followed.
struct connection_key {
	union address server;
	u32 begin;
	u32 interface;
	u32 vni;
	u16 vlan;
	u16 inner_vlan;
	u16 port;
	u16 pad[3];
};
_Static_assert(sizeof(struct connection_key) == 40, "connection_key has no hidden padding");

struct connection {
	struct flow_key flow; // where its packets pass
	u32 id; // hash of the server's connection ID
	u8 id_length;
	u8 pad[3];
};
_Static_assert(sizeof(struct connection) == 56, "connection has no hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct connection_key);
	__type(value, struct connection);
} connections SEC(".maps");

INLINE void connection_key_of(struct connection_key *k, const struct flow_key *flow, u8 server, u32 begin)
{
	k->server = flow->address[server & 1];
	k->begin = begin;
	k->interface = flow->interface;
	k->vni = vni_get(flow->vni);
	k->vlan = flow->vlan;
	k->inner_vlan = flow->inner_vlan;
	k->port = flow->port[server & 1];
	k->pad[0] = k->pad[1] = k->pad[2] = 0;
}

INLINE struct connection *connection_find(const struct flow_key *flow, u8 server, u32 begin)
{
	struct connection_key key;

	connection_key_of(&key, flow, server, begin);
	return bpf_map_lookup_elem(&connections, &key);
}

// connection_add adds the connection of a packet to the server, which has the server's connection ID. A client may take
// another one now and then: a connection is found by the last one only, so that it takes one place.
GLOBAL int connection_add(struct packet *p, struct flow *f, u32 begin, u32 id, u8 id_length)
{
	struct connection_key key;
	struct connection new = {}, *old;
	struct quic *q;

	if (!p || !f || id_length < sizeof(begin))
		return 0;
	q = &f->quic;
	connection_key_of(&key, &p->key, other(p->side), q->id_begin);
	old = q->id_length ? bpf_map_lookup_elem(&connections, &key) : NULL;
	if (old && old->id == q->id[other(p->side)])
		bpf_map_delete_elem(&connections, &key);
	key.begin = begin;
	new.flow = p->key;
	new.id = id;
	new.id_length = id_length;
	bpf_map_update_elem(&connections, &key, &new, BPF_ANY);
	q->id[other(p->side)] = id;
	q->id_begin = begin;
	q->id_length = id_length;
	return 0;
}

// connection_learn notes the connection ID of a client's packet. The server may not have this ID, and drop the packet:
// other connections keep their places.
GLOBAL int connection_learn(struct packet *p, u32 begin, u32 id)
{
	struct flow *f = p ? flow_find(p) : NULL;

	if (f && !connection_find(&p->key, other(p->side), begin))
		connection_add(p, f, begin, id, f->quic.id_length);
	return 0;
}

// connection_id_length returns the length of the connection ID in a packet to a server: of a known flow, or of a
// connection whose ID begins so. 0: it is not known.
GLOBAL u32 connection_id_length(struct packet *p, u32 begin, bool known)
{
	struct connection *c;
	struct flow *f;

	if (!p)
		return 0;
	if (known) {
		f = flow_find(p);
		return f ? f->quic.id_length : 0;
	}
	c = connection_find(&p->key, other(p->side), begin);
	return c ? c->id_length : 0;
}

// connection_seen creates a flow for a packet from an unknown address to a server, if it has a connection's ID.
GLOBAL enum outcome connection_seen(struct packet *p, u32 begin, u32 id)
{
	struct connection *c;
	struct flow *f;

	if (!p)
		return OUTCOME_CONTINUE;
	c = connection_find(&p->key, other(p->side), begin);
	if (!c || c->id != id)
		return OUTCOME_UDP_OTHER;
	if (for_this_host(p))
		return OUTCOME_LOCAL;
	f = flow_create(p);
	if (!f)
		return OUTCOME_FLOWS_FULL;
	f->move.from = c->flow;
	f->move.begin = begin;
	f->move.id = id;
	f->move.id_length = c->id_length;
	f->move.client = p->side;
	f->moving = true;
	flow_count(p, f);
	flow_await(p, flow_side(f, p->side), OPEN_FIRST_PACKET);
	return OUTCOME_QUIC;
}

INLINE u8 bits_swapped(u8 bits)
{
	return (bits & 1) << 1 | (bits >> 1 & 1);
}

// connection_take copies the state of the connection's old flow, whose ends may be in another order. What the client
// has sent since its packets come from another address was not followed.
INLINE void connection_take(struct flow *f, const struct flow *old, u8 client)
{
	u8 swap = (old->quic.opener ^ client) & 1;
	struct quic *q = &f->quic;

	*q = old->quic;
	for (u8 i = 0; i < 2; i++) {
		u8 from = (i ^ swap) & 1;
		struct side new = f->side[i];

		f->side[i] = old->side[from];
		f->side[i].packets += new.packets;
		f->side[i].bytes += new.bytes;
		f->side[i].to_local = new.to_local;
		q->heard[i] = old->quic.heard[from];
		q->id[i] = old->quic.id[from];
		q->spin[i] = old->quic.spin[from];
		q->loss_bits[i] = old->quic.loss_bits[from];
	}
	q->opener ^= swap;
	q->turn ^= swap;
	if (swap) {
		q->repeated = bits_swapped(q->repeated);
		q->spun = bits_swapped(q->spun);
	}
	q->spin[client & 1].seen = false;
	loss_bits_restart(&q->loss_bits[client & 1], false);
}

// connection_stays reports whether the client was at its old flow after it seemed to have moved, and may still be.
INLINE bool connection_stays(struct flow *f, struct flow *old, u8 client)
{
	u64 seen = flow_side(old, old->quic.opener)->seen;

	return seen > flow_side(f, client)->first && clock_coarse() - seen < MOVE_SILENCE;
}

// connection_move makes a flow that may be a connection's the connection's, because of a packet from the server. If the
// old flow has gone, only its ID is known.
GLOBAL int connection_move(struct packet *p, struct flow *f)
{
	u32 zero = 0;
	struct flow *old, *scratch = bpf_map_lookup_elem(&new_flow, &zero);
	struct connection *c;
	struct move *m;

	if (!p || !f || !scratch)
		return 0;
	m = &scratch->move; // what f has is overwritten
	*m = f->move;
	if (m->ambiguous)
		return 0;
	old = bpf_map_lookup_elem(&flows, &m->from);
	if (old && !old->moving && old->quic.id[other(old->quic.opener)] == m->id) {
		if (connection_stays(f, old, m->client))
			return 0;
		connection_take(f, old, m->client);
		bpf_map_delete_elem(&flows, &m->from);
		tally(TALLY_FLOWS_MOVED);
	} else {
		__builtin_memset(&f->quic, 0, sizeof(f->quic));
		f->quic.opener = m->client & 1;
		f->quic.phase = QUIC_REPLIED; // a server may send to any address that one of its clients pretends to have
	}
	f->quic.id[other(m->client)] = m->id;
	f->quic.id_begin = m->begin;
	f->quic.id_length = m->id_length;
	f->moving = false;
	c = connection_find(&p->key, p->side, m->begin);
	if (c && c->id == m->id)
		c->flow = p->key;
	return 0;
}
