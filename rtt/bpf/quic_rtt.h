// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// RTTs of QUIC from its handshake: a reply to a side's first long header has the source connection ID of that header as
// its destination connection ID. The opener's reply to the answerer has a connection ID of the answerer: the ID in its
// header, or already another one from the encrypted part of its flight (RFC 9000 §5.1.1). So any ID is the answerer's
// but the ID that the opener chose at first, unless the answerer has taken it for its own.
#pragma once

#include "connection.h"
#include "quic.h"
#include "spin.h"

// A side that sends long headers again after this time without a reply may be repeating itself: less than any initial
// PTO (RFC 9002 §6.2.2 recommends 999 ms), more than one flight takes.
#define QUIC_FLIGHT (100 * MILLISECOND)

// quic_heard notes a long header of a side, and whether the side may be repeating itself.
INLINE void quic_heard(struct quic *q, struct packet *p, u8 side)
{
	u64 before = q->heard[side & 1];

	if (before && packet_time(p) - before > QUIC_FLIGHT)
		q->repeated |= 1 << (side & 1);
	q->heard[side & 1] = packet_time(p);
}

// quic_rtt returns the time since the first long header of a side, or 0 if it may be since a later one, or is too long.
INLINE u64 quic_rtt(struct packet *p, const struct quic *q, u8 side, u64 since)
{
	u64 rtt = packet_time(p) - since;

	if (!(q->repeated & 1 << (side & 1)))
		return rtt_is_late(rtt) ? 0 : rtt;
	tally(TALLY_RTTS_AMBIGUOUS);
	return 0;
}

// quic_report reports the RTT of a side's first long header.
INLINE void quic_report(struct packet *p, struct flow *f, u8 side, u64 since)
{
	u64 rtt = quic_rtt(p, &f->quic, side, since);

	f->quic.base += rtt;
	if (rtt && !flow_side(f, side)->to_local)
		rtt_report(p, f, side, METHOD_HANDSHAKE, rtt);
}

INLINE void quic_open(struct packet *p, struct flow *f, const struct quic_long *l)
{
	struct quic *q = &f->quic;

	__builtin_memset(q, 0, sizeof(*q));
	q->opener = p->side;
	q->initial = packet_time(p);
	q->heard[p->side & 1] = packet_time(p);
	q->id[p->side & 1] = l->source_id;
	q->id[other(p->side)] = l->destination_id; // the opener's choice, until the other side has made its own
	flow_await(p, flow_side(f, p->side), OPEN_FIRST_PACKET);
}

// quic_handshake_alone measures from the opener's first Initial to the first packet in which it uses the connection ID
// of a reply that is not seen: of a Retry or of a handshake.
INLINE void quic_handshake_alone(struct packet *p, struct flow *f, const struct quic_long *l)
{
	struct quic *q = &f->quic;

	if (q->phase != QUIC_OPENED || l->destination_id == q->id[other(p->side)])
		return;
	q->phase = QUIC_REPLIED;
	q->base = quic_rtt(p, q, p->side, q->initial);
	if (q->base)
		rtt_one_direction(p, f, METHOD_HANDSHAKE, q->base);
}

// quic_handshake follows a connection from its first Initial to the opener's first reply.
INLINE void quic_handshake(struct packet *p, struct flow *f, const struct quic_long *l)
{
	struct quic *q = &f->quic;
	bool opener = p->side == q->opener, answers = l->destination_id == q->id[other(p->side)];

	if (opener && l->initial && l->source_id != q->id[p->side & 1]) {
		if (flow_is_confirmed(&p->key, f))
			flow_remember(&p->key); // what looks for flows that are not confirmed may have passed it
		quic_open(p, f, l); // another connection between the same ports
		return;
	}
	if (one_direction(p, f)) {
		quic_handshake_alone(p, f, l);
	} else if (!opener && q->phase == QUIC_OPENED && answers) {
		flow_answered(p, f);
		quic_report(p, f, q->opener, q->initial);
		q->id_chosen = q->id[p->side & 1];
		q->id[p->side & 1] = l->source_id;
		q->answer = packet_time(p);
		q->phase = QUIC_ANSWERED;
	} else if (opener && q->phase == QUIC_ANSWERED && (answers || l->destination_id != q->id_chosen)) {
		quic_report(p, f, other(q->opener), q->answer);
		q->phase = answers ? QUIC_CONFIRMED : QUIC_REPLIED; // anybody can make up another ID
		// An ID that the answerer's header has not shown takes nobody's place.
		if (answers || !connection_find(&p->key, other(p->side), l->destination_begin))
			connection_add(p, f, l->destination_begin, l->destination_id, l->destination_length);
	}
	quic_heard(q, p, p->side);
}

// quic_may_create returns why a long header may not create a flow. If it may, that is OUTCOME_FLOWS_FULL, the only
// reason left.
INLINE enum outcome quic_may_create(struct packet *p, const struct quic_long *l)
{
	if (!l->initial || p->payload < QUIC_INITIAL_MIN)
		return OUTCOME_QUIC_NO_FLOW;
	return for_this_host(p) ? OUTCOME_LOCAL : OUTCOME_FLOWS_FULL;
}

GLOBAL enum outcome quic_measure_long(struct packet *p, const struct quic_long *l)
{
	enum outcome outcome;
	struct flow *f;
	bool new;

	if (!p || !l)
		return OUTCOME_CONTINUE;
	f = flow_find(p);
	new = !f;
	if (new) {
		outcome = quic_may_create(p, l);
		f = outcome == OUTCOME_FLOWS_FULL ? flow_create(p) : NULL;
		if (!f)
			return outcome;
		quic_open(p, f, l);
	}
	flow_count(p, f);
	if (f->moving && quic_may_create(p, l) == OUTCOME_FLOWS_FULL) {
		f->moving = false; // the connection that may have moved here is not this one
		quic_open(p, f, l);
	} else if (!new && !f->moving) {
		quic_handshake(p, f, l);
	}
	return OUTCOME_QUIC;
}

// quic_measure_short takes the first bytes of the first and the last packet that an offload joined, and the first ones
// of the destination's connection ID. It returns OUTCOME_CONTINUE if the opener has taken another ID of the answerer.
GLOBAL enum outcome quic_measure_short(struct packet *p, u8 first, u8 last, u32 begin)
{
	struct quic *q;
	struct flow *f;

	if (!p)
		return OUTCOME_CONTINUE;
	f = flow_find(p);
	if (!f)
		return OUTCOME_UDP_OTHER;
	if (f->moving && p->side != f->move.client)
		connection_move(p, f);
	else if (f->moving && begin != f->move.begin)
		f->move.ambiguous = true;
	flow_count(p, f);
	if (f->moving)
		return OUTCOME_QUIC;
	flow_answered(p, f);
	if (config.aggregate && p->segments == 1)
		loss_bits_packet(p, &f->quic.loss_bits[p->side & 1], first);
	else if (config.aggregate)
		loss_bits_restart(&f->quic.loss_bits[p->side & 1], false); // not all of the bits are read
	spin_packet(p, f, first & QUIC_SPIN);
	if (last != first)
		spin_packet(p, f, last & QUIC_SPIN);
	q = &f->quic;
	return p->side == q->opener && q->id_length && q->id_begin != begin ? OUTCOME_CONTINUE : OUTCOME_QUIC;
}

// quic_follow looks at the connection ID of a 1-RTT packet. The packet is between ends that are not known, and may be
// of a connection that has moved there, or it is of a known one and has another ID.
INLINE enum outcome quic_follow(const struct cursor *c, struct packet *p, u32 begin, bool known)
{
	u32 length = connection_id_length(p, begin, known), id;

	if (!length || length >= p->payload || !quic_read_cid(c, p->at + 1, length, &id, &begin))
		return known ? OUTCOME_QUIC : OUTCOME_UDP_OTHER;
	if (!known)
		return connection_seen(p, begin, id);
	connection_learn(p, begin, id);
	return OUTCOME_QUIC;
}

INLINE enum outcome quic_measure(const struct cursor *c, struct packet *p)
{
	struct quic_long l = {};
	enum outcome outcome;
	u8 first, last;
	u32 begin = 0;

	if (!p->payload || !cursor_read(c, p->at, &first, sizeof(first)))
		return OUTCOME_UDP_OTHER;
	if (first & QUIC_LONG) {
		outcome = quic_parse_long(c, p, &l);
		return outcome ?: quic_measure_long(p, &l);
	}
	if (p->segments == 1 || !cursor_copy(c, p->at + (p->segments - 1) * p->segment_size, &last, sizeof(last)) ||
	    last & QUIC_LONG)
		last = first;
	if (p->payload > sizeof(begin))
		cursor_read(c, p->at + 1, &begin, sizeof(begin));
	outcome = quic_measure_short(p, first, last, begin);
	if (outcome != OUTCOME_CONTINUE && outcome != OUTCOME_UDP_OTHER)
		return outcome;
	return quic_follow(c, p, begin, outcome == OUTCOME_CONTINUE);
}
