// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// RTTs of TCP: by timestamps, else by sequence and acknowledgment numbers.
//
// Everything that an ACK proves to have arrived bounds the RTT from above: the packet whose timestamp it echoes, the
// newest byte it acknowledges, the first packet of the newest timestamp it covers. The RTT is the least of these
// bounds. That is exact where an echoed timestamp alone is not: when an ACK was delayed until a later timestamp, or
// when the ACK that would have echoed it first was lost. A packet that was sent twice proves nothing (Karn's rule).
#pragma once

#include "tcp_one_direction.h"

#define TCP_WINDOW_MAX (1 << 30) // RFC 7323 §2.3: the most that can be in flight
#define TCP_SEGMENTS_MAX 64 // of one packet that are stamped: 64 KiB have 45 of 1448 bytes

// tcp_may_create returns why a segment may not create a flow. If it may, that is OUTCOME_FLOWS_FULL, the only reason
// left.
INLINE enum outcome tcp_may_create(struct packet *p, const struct segment *t)
{
	if (t->flags & TCP_SYN && !config.syn)
		return OUTCOME_TCP_SYN;
	if (t->flags & (TCP_FIN | TCP_RST) || !(p->payload || t->flags & TCP_SYN))
		return OUTCOME_TCP_NO_FLOW;
	return for_this_host(p) ? OUTCOME_LOCAL : OUTCOME_FLOWS_FULL;
}

// tcp_reopened reports whether a SYN on a known flow begins another connection, and is not a retransmission.
INLINE bool tcp_reopened(struct packet *p, struct flow *f, const struct segment *t)
{
	const struct tcp_side *s = &f->tcp.side[p->side & 1];

	if ((t->flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return false;
	if (!config.syn)
		return true; // flows begin with data
	return flow_side(f, p->side)->packets && !(s->syn_seen && s->sequence_end == t->end);
}

// tcp_flow finds or creates the flow of a segment.
INLINE struct flow *tcp_flow(struct packet *p, const struct segment *t, enum outcome *outcome)
{
	struct flow *f = flow_find(p);

	if (f && tcp_reopened(p, f, t)) {
		flow_close(p, f, p->side, CLOSE_SYN);
		flow_close(p, f, other(p->side), CLOSE_SYN);
		flow_delete(p);
		f = NULL;
	}
	if (f)
		return f;
	*outcome = tcp_may_create(p, t);
	return *outcome == OUTCOME_FLOWS_FULL ? flow_create(p) : NULL;
}

// tcp_retransmitted notes a segment that begins before the highest byte sent. It withdraws the stamp of its timestamp:
// a reply may echo either of the two packets.
INLINE void tcp_retransmitted(struct packet *p, struct flow *f, const struct segment *t)
{
	struct side *s = flow_side(f, p->side);
	struct tcp_side *tcp = &f->tcp.side[p->side & 1];

	tcp->karn_end = tcp->sequence_end;
	tcp->retransmissions += p->segments;
	p->retransmitted = p->segments;
	tally_add(TALLY_RETRANSMISSIONS, p->segments);
	if (!t->timestamps || !stamp_waits(s) || s->id != t->tsval)
		return;
	if (!stamp_take(stamp_tag(f, p->side, STAMP_TIMESTAMP, t->tsval)))
		return;
	tally(TALLY_STAMPS_AMBIGUOUS);
	s->stamps--;
	s->stamped = 0; // the next timestamp may be stamped
}

// tcp_resync starts a side's sequence space at a segment whose past is unknown.
INLINE void tcp_resync(struct tcp_side *s, const struct segment *t)
{
	s->sequenced = true;
	s->karn_end = t->start;
	s->sequence_end = t->start;
	s->acknowledged = t->start;
	s->data_begin = t->start + !!(t->flags & TCP_SYN);
}

// tcp_time returns when the packet was sent if that can be a better start for a waiting stamp, else 0.
INLINE u64 tcp_time(struct packet *p, struct flow *f)
{
	return stamp_waits(flow_side(f, p->side)) ? packet_time(p) : 0;
}

// tcp_advance notes the segment if it is the newest.
INLINE void tcp_advance(struct packet *p, struct flow *f, const struct segment *t)
{
	struct tcp_side *s = &f->tcp.side[p->side & 1];

	if (!after(t->end, s->sequence_end))
		return;
	s->sequence_end = t->end;
	s->newest_at = tcp_time(p, f);
	// Without retransmissions karn_end stays where it is, and would compare as ahead after 2^31 bytes. So would
	// data_begin.
	if (s->sequence_end - s->karn_end > TCP_WINDOW_MAX)
		s->karn_end = s->sequence_end - TCP_WINDOW_MAX;
	if (s->sequence_end - s->data_begin > TCP_WINDOW_MAX)
		s->data_begin = s->sequence_end - TCP_WINDOW_MAX;
}

// tcp_keeps_alive reports whether the segment is a keep-alive: a probe that repeats at most one acknowledged byte (RFC
// 9293 §3.8.4).
INLINE bool tcp_keeps_alive(struct packet *p, const struct segment *t, s32 ahead)
{
	return ahead == -1 && p->payload <= 1 && !(t->flags & TCP_SYN);
}

// tcp_sequence tracks the highest byte sent. It returns whether the whole segment is new, and the bytes before it are
// known.
INLINE bool tcp_sequence(struct packet *p, struct flow *f, const struct segment *t)
{
	struct tcp_side *s = &f->tcp.side[p->side & 1];
	s32 ahead = t->start - s->sequence_end;
	bool known = s->sequenced && ahead < TCP_WINDOW_MAX && ahead > -TCP_WINDOW_MAX;

	if (!known)
		tcp_resync(s, t);
	else if (ahead < 0 && !tcp_keeps_alive(p, t, ahead))
		tcp_retransmitted(p, f, t);
	tcp_advance(p, f, t);
	return known && ahead >= 0;
}

// tcp_tick tracks the timestamp of a side. It returns whether this is the first packet of a timestamp that can be
// stamped: the first timestamp that is seen in the middle of a flow may have been sent before.
INLINE bool tcp_tick(struct packet *p, struct flow *f, const struct segment *t, bool fresh)
{
	struct side *s = flow_side(f, p->side);
	struct tcp_side *tcp = &f->tcp.side[p->side & 1];
	bool known = s->identified || tcp->syn_seen;

	if (s->identified && !after(t->tsval, s->id))
		return false;
	s->identified = true;
	s->id = t->tsval;
	tcp->tick_end = t->end;
	tcp->tick_at = fresh ? tcp_time(p, f) : 0;
	return known;
}

// tcp_identify finds the identifier to stamp the segment by, if only this segment can cause its reply.
INLINE bool tcp_identify(struct packet *p, struct flow *f, const struct segment *t, bool fresh, u32 *id)
{
	*id = t->timestamps ? t->tsval : t->end;
	return t->timestamps ? tcp_tick(p, f, t, fresh) : fresh;
}

// tcp_stamp_segments stamps the ends of all but the last of the segments that an offload joined: an ACK may end with
// any of them. With a rate limit only the first answer counts.
INLINE void tcp_stamp_segments(struct packet *p, struct flow *f, const struct segment *t)
{
	bool every = !config.stamp_interval && !config.rtt_rate;

	for (u32 i = 1; i < TCP_SEGMENTS_MAX && i < p->segments; i++) {
		stamp_put(stamp_tag(f, p->side, STAMP_SEQUENCE, t->start + i * p->segment_size), packet_time(p));
		if (every)
			flow_side(f, p->side)->stamps++;
	}
}

// tcp_stamp stamps a segment that needs a reply: one with payload, or a SYN.
GLOBAL int tcp_stamp(struct packet *p, struct flow *f, const struct segment *t)
{
	struct tcp_side *tcp;
	struct side *s;
	bool syn, fresh;
	u32 id;

	if (!p || !f || !t)
		return 0;
	s = flow_side(f, p->side);
	tcp = &f->tcp.side[p->side & 1];
	syn = t->flags & TCP_SYN;
	if ((syn && !config.syn) || t->flags & TCP_RST || t->start == t->end || s->state == SIDE_CLOSED)
		return 0;
	fresh = tcp_sequence(p, f, t);
	if (syn && !tcp->syn_seen)
		fresh = tcp->syn_seen = true;
	if ((!p->payload && !syn) || !stampable(p, s))
		return 0;
	flow_await(p, s, !syn ? OPEN_FIRST_PACKET : t->flags & TCP_ACK ? OPEN_SYN_ACK : OPEN_SYN);
	if (!tcp_identify(p, f, t, fresh, &id) || !tcp_is_answerable(p, f) || !rate_due(p, s, &s->stamped))
		return 0;
	tcp->kind = t->timestamps ? STAMP_TIMESTAMP : STAMP_SEQUENCE;
	if (t->end == tcp->sequence_end)
		tcp->newest_at = packet_time(p);
	if (!t->timestamps && p->segments > 1)
		tcp_stamp_segments(p, f, t);
	stamp_sender(p, f, tcp->kind, id);
	return 0;
}

// tcp_bound returns the time of the latest packet that the ACK proves to have arrived.
INLINE u64 tcp_bound(const struct tcp_side *s, u32 ack, u64 stamped)
{
	u64 time = stamped;

	if (!s->sequenced || !after(ack, s->karn_end))
		return time;
	if (ack == s->sequence_end && s->newest_at > time)
		time = s->newest_at;
	if (s->tick_at > time && after(s->tick_end, s->karn_end) && !after(s->tick_end, ack))
		time = s->tick_at;
	if (time != stamped)
		tally(TALLY_RTTS_TIGHTENED);
	return time;
}

INLINE u64 tcp_answer_timestamp(struct packet *p, struct flow *f, const struct segment *t)
{
	u8 side = other(p->side);
	u64 time;

	if (after(t->tsecr, flow_side(f, side)->stamped_id))
		return 0;
	time = stamp_answer(p, f, side, STAMP_TIMESTAMP, t->tsecr);
	return time ? tcp_bound(&f->tcp.side[side], t->ack, time) : 0;
}

// tcp_answer_sequence finds the segment that an ACK ends with. An ACK of everything sent needs no stamp of its own, but
// counts only if some stamp waits: the rate limit applies to stamps.
INLINE u64 tcp_answer_sequence(struct packet *p, struct flow *f, const struct segment *t)
{
	u8 side = other(p->side);
	struct side *s = flow_side(f, side);
	struct tcp_side *tcp = &f->tcp.side[side];
	bool ambiguous = !after(t->ack, tcp->karn_end);
	u32 stamps = s->stamps; // before stamped_id is read, so that a stamp that is being taken is not settled
	u64 time = 0;

	// An ACK that acknowledges nothing new is a duplicate, or arrives out of order.
	if (!tcp->sequenced || !after(t->ack, tcp->acknowledged) || after(t->ack, tcp->sequence_end))
		return 0;
	tcp->acknowledged = t->ack;
	if (stamps == s->settled)
		return 0;
	if (tcp->kind == STAMP_SEQUENCE) {
		time = stamp_answer(p, f, side, STAMP_SEQUENCE, t->ack);
		if (time && ambiguous)
			tally(TALLY_RTTS_AMBIGUOUS);
		if (after(s->stamped_id, t->ack))
			return ambiguous ? 0 : time;
	}
	// Everything that was stamped is acknowledged.
	s->settled = stamps;
	if (ambiguous)
		time = 0;
	else if (t->ack == tcp->sequence_end && tcp->newest_at)
		time = tcp->newest_at;
	if (!time)
		s->stamped = 0; // the ACK skipped the stamped segment: the next one may be stamped
	return time;
}

// tcp_confirm notes that the segment acknowledges data. That takes a whole handshake: who has sent a SYN with a false
// source does not see the SYN-ACK, and cannot end it.
INLINE void tcp_confirm(struct packet *p, struct flow *f, const struct segment *t)
{
	const struct tcp_side *peer = &f->tcp.side[other(p->side)];

	if (!peer->sequenced || t->flags & TCP_SYN)
		return;
	if (after(t->ack, peer->data_begin) && !after(t->ack, peer->sequence_end))
		f->tcp.confirmed = true;
}

// tcp_match measures the RTT that the segment's ACK completes.
GLOBAL int tcp_match(struct packet *p, struct flow *f, const struct segment *t)
{
	u64 time;

	if (!p || !f || !t || !(t->flags & TCP_ACK))
		return 0;
	if (one_direction(p, f)) {
		tcp_match_alone(p, f, t);
		return 0;
	}
	flow_answered(p, f);
	tcp_confirm(p, f, t);
	time = t->timestamps ? tcp_answer_timestamp(p, f, t) : tcp_answer_sequence(p, f, t);
	if (time)
		rtt_report(p, f, other(p->side), t->timestamps ? METHOD_TIMESTAMP : METHOD_SEQUENCE, packet_time(p) - time);
	return 0;
}

INLINE void tcp_close(struct packet *p, struct flow *f, const struct segment *t)
{
	if (t->flags & TCP_RST) {
		flow_close(p, f, p->side, CLOSE_RST);
		flow_close(p, f, other(p->side), CLOSE_RST);
	} else if (t->flags & TCP_FIN) {
		flow_close(p, f, p->side, CLOSE_FIN);
	}
	if (f->side[0].state == SIDE_CLOSED && f->side[1].state == SIDE_CLOSED)
		flow_delete(p);
}

GLOBAL enum outcome tcp_measure(struct packet *p, const struct segment *t)
{
	enum outcome outcome;
	struct flow *f;

	if (!p || !t)
		return OUTCOME_CONTINUE;
	f = tcp_flow(p, t, &outcome);
	if (!f)
		return outcome;
	flow_count(p, f);
	tcp_stamp(p, f, t);
	tcp_match(p, f, t);
	tcp_close(p, f, t);
	return OUTCOME_TCP;
}
