// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// RTTs from QUIC's spin bit (RFC 9000 §17.4, RFC 9312 §3.8.2).
//
// The server reflects the bit, the client inverts it: edges pass the observer in one direction and the other in turn.
// An edge is confirmed by the next edge in the other direction, which only the far end of its path can cause. So when
// an edge comes in turn, it confirms the peer's last edge, and with that and the two before:
//
//	peer's previous edge ── A ── own last edge ── B ── peer's last edge
//
// A is the RTT from here to the own end, B the RTT to the peer's end. Their sum is the RTT of the connection.
// Packets that arrive out of order make edges out of turn. RTTs with such edges are not reported.
#pragma once

#include "report.h"

#define SPIN_EDGES_MIN 16 // before a connection is classified other than "constant"
#define SPIN_STRAYS_MIN 8 // before it is classified as random because of edges out of turn
#define SPIN_PACKETS_MIN 32 // from each side since its last change, before it is constant; a power of two
#define SPIN_QUIET (500 * MILLISECOND) // since the last change, before the same
#define SPIN_QUIET_BASES 8 // or this many times the base, if that is more
#define SPIN_MEMORY 64 // changes after which older ones count half
#define SPIN_LONG_RUN 4 // mean number of packets between two changes that random bits do not reach
#define SPIN_BASE_PART 8 // a sample below this part of the base is rejected
#define SPIN_BELOW_MAX 16 // after so many rejected samples in a row the base is halved

// spin_by_chance reports whether a side's bit looks random in each packet. Runs of equal values are then two packets
// long on average, and successive runs differ by two thirds of that. Longer runs, or runs that differ less, come from
// round trips.
INLINE bool spin_by_chance(const struct spin *s)
{
	return s->packets < s->changes * SPIN_LONG_RUN && s->wander * 3 > s->packets;
}

// spin_classify classifies the bit by the latest packets. Each edge does so again, because the path can change.
INLINE void spin_classify(struct quic *q)
{
	const struct spin *a = &q->spin[0], *b = &q->spin[1];

	if (q->edges + q->strays >= SPIN_MEMORY) {
		q->edges /= 2;
		q->strays /= 2;
	}
	if (q->strays >= SPIN_STRAYS_MIN && q->strays * 4 > q->edges)
		q->class = SPIN_RANDOM;
	if (a->changes < SPIN_EDGES_MIN / 2 || b->changes < SPIN_EDGES_MIN / 2)
		return;
	if (spin_by_chance(a) || spin_by_chance(b))
		q->class = SPIN_RANDOM;
	else if (q->edges >= SPIN_EDGES_MIN && q->strays * 8 <= q->edges)
		q->class = SPIN_SPINNING;
}

// spin_change adds the run that ends with a change.
INLINE void spin_change(struct spin *s)
{
	s32 differ = s->run - s->previous_run;

	if (s->changes >= SPIN_MEMORY) {
		s->changes /= 2;
		s->packets /= 2;
		s->wander /= 2;
	}
	s->changes++;
	s->packets += s->run;
	s->wander += differ < 0 ? -differ : differ;
	s->previous_run = s->run;
}

// spin_quiet classifies the bit as constant if it no longer changes although packets pass.
INLINE void spin_quiet(struct quic *q, u64 now)
{
	u64 quiet = q->base * SPIN_QUIET_BASES;

	if (quiet < SPIN_QUIET)
		quiet = SPIN_QUIET;
	for (int i = 0; i < 2; i++)
		if (q->spin[i].run < SPIN_PACKETS_MIN || now - q->spin[i].changed < quiet)
			return;
	q->class = SPIN_CONSTANT;
	q->edges = q->strays = 0;
}

// spin_plausible compares a sample with the base: reordering that leaves edges in turn makes samples far too small.
INLINE bool spin_plausible(struct quic *q, u64 rtt)
{
	if (rtt * SPIN_BASE_PART >= q->base) {
		q->below = 0;
		return true;
	}
	tally(TALLY_SPIN_BELOW_BASE);
	if (++q->below >= SPIN_BELOW_MAX) {
		q->base /= 2;
		q->below = 0;
	}
	return false;
}

INLINE void spin_report(struct packet *p, struct flow *f, u8 side, u64 near, u64 far)
{
	struct side *s = flow_side(f, side);
	struct event *e;

	if (!rate_due(p, s, &s->stamped))
		return;
	if (!(f->quic.spun & 1 << (side & 1)))
		s->min_rtt = s->smoothed_rtt = 0;
	f->quic.spun |= 1 << (side & 1);
	rtt_update(s, near + far);
	rtt_count(p, side, far); // the RTT from here to the host, as with other protocols
	e = rtt_event(p, f, side, METHOD_SPIN, near + far);
	if (!e)
		return;
	e->far_rtt = far;
	event_send(e, packet_time(p));
}

// spin_sample measures the time between the peer's last two edges, which the packet's edge confirms.
INLINE void spin_sample(struct packet *p, struct flow *f)
{
	struct quic *q = &f->quic;
	const struct spin *own = &q->spin[p->side & 1], *peer = &q->spin[other(p->side)];
	u64 last = peer->edges[0], middle = own->edges[0], previous = peer->edges[1];

	if (q->class != SPIN_SPINNING || !previous || previous > middle || middle > last)
		return;
	if (peer->strayed & 3 || own->strayed & 1) {
		tally(TALLY_SPIN_DISTURBED);
		return;
	}
	if (spin_plausible(q, last - previous))
		spin_report(p, f, other(p->side), last - middle, middle - previous);
}

// spin_edge_alone measures between two edges of one direction, if the other is not seen: the RTT of the whole path. A
// packet that arrives late makes two edges more, soon after the last; the next RTT does not begin there.
INLINE void spin_edge_alone(struct packet *p, struct flow *f)
{
	struct quic *q = &f->quic;
	struct spin *s = &q->spin[p->side & 1];
	u64 last = s->edges[0], rtt = packet_time(p) - last;

	if (s->changes >= SPIN_EDGES_MIN)
		q->class = spin_by_chance(s) ? SPIN_RANDOM : SPIN_SPINNING;
	if (last && !spin_plausible(q, rtt))
		return;
	s->edges[0] = packet_time(p);
	if (!last)
		return;
	if (!q->base || rtt < q->base)
		q->base = q->base ? (q->base * 7 + rtt) / 8 : rtt; // of a server, no handshake is measured
	else
		q->base += q->base / 64; // slowly: an end that pauses delays its edge
	if (q->class == SPIN_SPINNING && rate_due(p, flow_side(f, p->side), &flow_side(f, p->side)->stamped))
		rtt_one_direction(p, f, METHOD_SPIN, rtt);
}

INLINE void spin_edge(struct packet *p, struct flow *f)
{
	struct quic *q = &f->quic;
	struct spin *s = &q->spin[p->side & 1];

	if (one_direction(p, f)) {
		spin_edge_alone(p, f);
		return;
	}
	if (q->edges && q->turn != p->side) {
		q->strays++;
		s->strayed |= 1;
		tally(TALLY_SPIN_STRAYS);
		spin_classify(q);
		return;
	}
	q->edges++;
	q->turn = other(p->side);
	tally(TALLY_SPIN_EDGES);
	spin_classify(q);
	spin_sample(p, f);
	s->edges[1] = s->edges[0];
	s->edges[0] = packet_time(p);
	s->strayed <<= 1;
}

// spin_packet follows the bit of one 1-RTT packet.
INLINE void spin_packet(struct packet *p, struct flow *f, bool value)
{
	struct spin *s = &f->quic.spin[p->side & 1];

	if (s->seen && s->value == value) {
		if (++s->run % SPIN_PACKETS_MIN == 0)
			spin_quiet(&f->quic, packet_time(p));
		return;
	}
	if (s->seen) {
		spin_change(s);
		spin_edge(p, f);
	}
	s->value = value;
	s->run = 1;
	s->changed = packet_time(p);
	s->seen = true;
}
