// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// RTTs of TCP if only one side's packets are seen: of the handshake, and of how delays have changed since.
//
// The ACK of the SYN-ACK comes a round trip after the SYN. Later packets do not say which packet of their sender had
// been answered. But a packet with a new TSecr says when, by the clock of the side that is not seen, a packet had left
// there. The time here minus that time is the delay from there to the seen side and on to here, plus the unknown offset
// of the two clocks, which the handshake has too. So the difference to the handshake is how much longer this way takes.
// What the other part of the path, from here to the side that is not seen, takes is only known from the handshake.
#pragma once

#include "flow_table.h"
#include "tcp.h"

// The assumed rate of the clock of TSval. Another clock is noticed, because its delays grow or shrink with time.
#define TCP_TICK MILLISECOND
// The least delay of this period and the last is the path without queues. As a clock may be 50 ppm off, that has to be
// found again: the error is at most 6 ms.
#define TCP_ALONE_PERIOD (60 * SECOND)
#define TCP_QUEUE_MAX (2 * SECOND) // of a clock that ticks as expected

INLINE void tcp_alone_begin(struct packet *p, struct flow *f, const struct segment *t, u64 rtt)
{
	struct tcp_alone *a = &f->tcp.alone;

	if (!t->timestamps)
		return;
	a->began = a->turn = a->reported = packet_time(p);
	a->base = rtt;
	a->echo = t->tsecr;
	a->acknowledged = t->ack;
}

// tcp_handshake_alone measures from a SYN to the ACK of the SYN-ACK, which is not seen.
INLINE void tcp_handshake_alone(struct packet *p, struct flow *f, const struct segment *t)
{
	const struct side *s = flow_side(f, p->side);
	const struct tcp_side *tcp = &f->tcp.side[p->side & 1];
	u64 rtt;

	if (s->packets != 2 || s->state != SIDE_WAITING || s->open_reason != OPEN_SYN || t->flags & (TCP_SYN | TCP_RST))
		return;
	if (tcp->retransmissions) {
		tally(TALLY_RTTS_AMBIGUOUS);
		return;
	}
	rtt = packet_time(p) - s->first;
	tcp_alone_begin(p, f, t, rtt);
	rtt_one_direction(p, f, METHOD_HANDSHAKE, rtt);
}

// tcp_echo_is_prompt reports whether the packet that is echoed has caused this one: a pure ACK of new bytes, the first
// one with this timestamp. Data and FIN leave when the application wants.
INLINE bool tcp_echo_is_prompt(struct packet *p, struct tcp_alone *a, const struct segment *t)
{
	bool first = after(t->tsecr, a->echo), more = after(t->ack, a->acknowledged);

	if (first) {
		a->ticks += t->tsecr - a->echo;
		a->echo = t->tsecr;
	}
	if (more)
		a->acknowledged = t->ack;
	return first && more && !p->payload && !(t->flags & (TCP_SYN | TCP_FIN | TCP_RST));
}

// tcp_ticks reports whether a clock of TCP_TICK explains the delay. With one of half the rate or of twice the rate, it
// is half of the time that has passed or more, or a little less if the ACK was late. That little is soon less than the
// rest: an eighth of the time, and as much as queues may hold.
INLINE bool tcp_ticks(const struct tcp_alone *a, u64 now, s64 delay)
{
	u64 passed = now - a->began;
	s64 half = passed / 2, most = passed / 8 + TCP_QUEUE_MAX;

	if (most > half)
		most = half;
	return delay < most && delay > -most;
}

// tcp_alone_least returns the delay of the path without queues. In the first period, a lesser one than the handshake's
// means that there was a queue then. Later it is the clock or another path, and the base stays.
INLINE s64 tcp_alone_least(struct tcp_alone *a, u64 now, s64 delay)
{
	s64 less;

	if (now - a->turn >= TCP_ALONE_PERIOD) {
		a->least[1] = now - a->turn < 2 * TCP_ALONE_PERIOD ? a->least[0] : delay;
		a->least[0] = delay;
		a->turn = now;
	}
	less = a->least[0] - delay;
	if (less > 0) {
		if (a->turn == a->began && less < (s64)a->base)
			a->base -= less;
		a->least[0] = delay;
	}
	return a->least[0] < a->least[1] ? a->least[0] : a->least[1];
}

// tcp_echo_alone measures by the timestamp that the packet echoes.
INLINE void tcp_echo_alone(struct packet *p, struct flow *f, const struct segment *t)
{
	struct tcp_alone *a = &f->tcp.alone;
	s64 delay, least;
	u64 now, rtt;

	if (!a->began || !t->timestamps || !tcp_echo_is_prompt(p, a, t))
		return;
	now = packet_time(p);
	delay = now - a->began - a->ticks * TCP_TICK; // ticks are up to tsecr
	if (!tcp_ticks(a, now, delay)) {
		tally(TALLY_ECHOES_OTHER_CLOCK);
		return;
	}
	least = tcp_alone_least(a, now, delay); // before base is read
	rtt = a->base + (delay - least);
	if (rate_due(p, flow_side(f, p->side), &a->reported)) // data may be stamped between any two ACKs
		rtt_one_direction(p, f, METHOD_TIMESTAMP, rtt);
}

// A side may send so many stamped packets before the first reply is seen: an initial window (RFC 6928), and some more.
#define TCP_ALONE_STAMPS 16

// tcp_is_answerable reports whether the reply to a packet may pass. It does not if the sender has acknowledged a
// SYN-ACK that was not seen. Else replies that were to come would have been seen after a while. When a packet of the
// other side is seen, stamps are taken again.
INLINE bool tcp_is_answerable(const struct packet *p, struct flow *f)
{
	if (!one_direction(p, f) || (!f->tcp.alone.began && flow_side(f, p->side)->stamps < TCP_ALONE_STAMPS))
		return true;
	tally(TALLY_STAMPS_ONE_DIRECTION);
	return false;
}

INLINE void tcp_match_alone(struct packet *p, struct flow *f, const struct segment *t)
{
	tcp_handshake_alone(p, f, t);
	tcp_echo_alone(p, f, t);
}
