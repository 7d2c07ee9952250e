// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Reports of measured RTTs, and of flows that open or close.
#pragma once

#include "event.h"
#include "prefix.h"
#include "stamp.h"

// rtt_is_late reports whether an RTT is beyond the lifetime of a stamp. A negative one is as well, because the number
// is unsigned: the times of a capture may be out of order.
INLINE bool rtt_is_late(u64 rtt)
{
	if (rtt <= STAMP_LIFETIME)
		return false;
	tally(TALLY_RTTS_LATE);
	return true;
}

// rtt_update keeps a side's minimum and its smoothed RTT, with the weights of RFC 6298 §2.
INLINE void rtt_update(struct side *s, u64 rtt)
{
	if (!s->min_rtt || rtt < s->min_rtt)
		s->min_rtt = rtt;
	s->smoothed_rtt = s->smoothed_rtt ? (s->smoothed_rtt * 7 + rtt) / 8 : rtt;
}

// rtt_count counts an RTT, for its prefix too.
INLINE void rtt_count(struct packet *p, u8 side, u64 rtt)
{
	tally(TALLY_RTTS);
	if (config.aggregate)
		prefix_rtt(p, side, rtt);
}

// flow_event builds an event about a side of a flow, if events are switched on.
INLINE struct event *flow_event(bool iterator, const struct flow_key *key, u8 side, enum event_type type, u64 time)
{
	struct event *e = config.events ? event_new(iterator) : NULL;

	if (!e)
		return NULL;
	event_ends(e, key, side);
	e->type = type;
	e->time = time;
	return e;
}

// rtt_event builds the event of an RTT, if events are switched on.
INLINE struct event *rtt_event(struct packet *p, struct flow *f, u8 side, enum method method, u64 rtt)
{
	struct side *s = flow_side(f, side), *peer = flow_side(f, other(side));
	struct event *e = flow_event(false, &p->key, side, EVENT_RTT, packet_time(p));

	if (!e)
		return NULL;
	e->method = method;
	e->egress = p->egress;
	e->rtt = rtt;
	e->min_rtt = s->min_rtt;
	e->sent_packets = s->packets;
	e->sent_bytes = s->bytes;
	e->received_packets = peer->packets;
	e->received_bytes = peer->bytes;
	if (p->key.protocol == IP_TCP)
		e->retransmissions = f->tcp.side[side & 1].retransmissions;
	return e;
}

// rtt_report reports an RTT of one side's packets, which the packet has just answered.
INLINE void rtt_report(struct packet *p, struct flow *f, u8 side, enum method method, u64 rtt)
{
	struct event *e;

	if (rtt_is_late(rtt))
		return;
	rtt_update(flow_side(f, side), rtt);
	rtt_count(p, side, rtt);
	e = rtt_event(p, f, side, method, rtt);
	if (e)
		event_send(e, packet_time(p));
}

// one_direction reports whether the packets of the packet's sender are the only ones that are seen of the flow: the
// others go another way.
INLINE bool one_direction(const struct packet *p, struct flow *f)
{
	return !flow_side(f, other(p->side))->packets;
}

// rtt_one_direction reports the time from one packet of a side to another one, between which the other side has
// replied: the RTT of the whole path. As with stamps, a time beyond the lifetime is none. Aggregates keep these RTTs
// apart from those between here and the hosts of a prefix.
INLINE void rtt_one_direction(struct packet *p, struct flow *f, enum method method, u64 rtt)
{
	struct event *e;

	if (rtt_is_late(rtt))
		return;
	tally(TALLY_RTTS_ONE_DIRECTION);
	rtt_update(flow_side(f, p->side), rtt);
	if (config.aggregate)
		prefix_one_direction(p, rtt);
	e = rtt_event(p, f, p->side, method, rtt);
	if (!e)
		return;
	e->flags = EVENT_ONE_DIRECTION;
	event_send(e, packet_time(p));
}

// flow_answered opens the side that the packet was sent to, if this is the first reply to it.
INLINE void flow_answered(struct packet *p, struct flow *f)
{
	u8 side = other(p->side);
	struct side *s = flow_side(f, side);
	struct event *e;

	if (s->state != SIDE_WAITING)
		return;
	s->state = SIDE_OPEN;
	e = flow_event(false, &p->key, side, EVENT_OPENING, s->first);
	if (!e)
		return;
	e->reason = s->open_reason;
	e->trigger = TRIGGER_DESTINATION;
	event_send(e, packet_time(p));
}

// flow_close closes one side because of the packet.
INLINE void flow_close(struct packet *p, struct flow *f, u8 side, enum close_reason reason)
{
	struct side *s = flow_side(f, side);
	struct event *e = s->state == SIDE_OPEN ? flow_event(false, &p->key, side, EVENT_CLOSING, packet_time(p)) : NULL;

	s->state = SIDE_CLOSED;
	if (!e)
		return;
	e->reason = reason;
	e->trigger = p->side == side ? TRIGGER_DESTINATION : TRIGGER_SOURCE;
	event_send(e, packet_time(p));
}

INLINE void flow_delete(struct packet *p)
{
	if (bpf_map_delete_elem(&flows, &p->key) == 0)
		tally(TALLY_FLOWS_DELETED);
}
