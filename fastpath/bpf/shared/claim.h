// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The claim protocol of the Go package claim, from the kernel's side: look, begin, take, commit. Everything that is
// taken before the compare-and-swap of next can be given back: that operation is the commit point.
//
// Fields are changed by the __sync builtins. An addition whose result is not used becomes an instruction without
// ordering on arm64. An addition whose result is used, an exchange and a compare-and-swap are full barriers everywhere:
// where order matters, use one of these.
#pragma once

#include "bucket.h"
#include "reason.h"
#include "scratch.h"
#include "state.h"

static __noinline struct record *ledger_record(u32 connection, u64 number)
{
	void *ledger = bpf_map_lookup_elem(&ledgers, &connection);
	u32 key = number & (LEDGER_LEN - 1);

	return ledger ? bpf_map_lookup_elem(ledger, &key) : 0;
}

INLINE void abort_packet(struct conn_state *s)
{
	__sync_fetch_and_add(&s->writers, -1);
}

// take_credit takes n bytes of connection flow control credit, or nothing.
INLINE int take_credit(struct conn_state *s, u64 n)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		u64 sent = SHARED(s->data_sent);
		if (sent + n > SHARED(s->data_limit))
			return 0;
		if (__sync_bool_compare_and_swap(&s->data_sent, sent, sent + n))
			return 1;
	}
	return 0;
}

// take_stream takes the id of a unidirectional stream.
INLINE int take_stream(struct conn_state *s, u64 *id)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		u64 next = SHARED(s->next_uni);
		if (next / 4 >= SHARED(s->max_uni))
			return 0;
		if (__sync_bool_compare_and_swap(&s->next_uni, next, next + 4)) {
			*id = next;
			return 1;
		}
	}
	return 0;
}

// look_at_stream reports whether the bytes of a claim come next, and whether the stream has credit for them. Nothing is
// taken; the answer can be out of date when claim_bytes is called.
INLINE enum reason look_at_stream(const struct stream_state *st, const struct claim *cl)
{
	if (SHARED(st->next) != cl->from)
		return COPY_OUT_OF_ORDER;
	if (cl->to + st->delta > SHARED(st->limit))
		return COPY_STREAM_CREDIT;
	return COPY_SENT;
}

// has_room reports whether the ledger has room for one more packet. A quarter of it is kept for numbers that user space
// takes.
INLINE bool has_room(const struct conn_state *s)
{
	return (SHARED(s->next_pn) & NUMBER_MASK) - s->ledger_low < LEDGER_LEN - LEDGER_LEN / 4;
}

// begin_packet announces a packet, takes its number and returns its record. It returns 0, and announces nothing, if the
// connection has ended, or if the ledger is full.
INLINE struct record *begin_packet(struct conn_state *s, struct claim *cl)
{
	if (!has_room(s))
		return 0;
	__sync_fetch_and_add(&s->writers, 1);
	u64 word = __sync_fetch_and_add(&s->next_pn, 1);
	cl->number = word & NUMBER_MASK;
	cl->generation = word >> GENERATION_SHIFT;
	struct record *r = ledger_record(cl->subscriber, cl->number);
	if (r && !(word & NUMBERS_CLOSED) && cl->number - SHARED(s->ledger_low) < LEDGER_LEN)
		return r;
	abort_packet(s);
	return 0;
}

// no_number returns why begin_packet has failed.
INLINE enum reason no_number(const struct conn_state *s)
{
	return SHARED(s->next_pn) & NUMBERS_CLOSED ? COPY_NO_PATH : COPY_LEDGER_FULL;
}

// commit_packet records the packet, and whether it has an ECN mark. info lacks its lengths.
//
// User space must not take a record that is half written for a whole one: it looks at pn before and after it has read
// the rest. The two exchanges keep the order on every architecture, see above.
INLINE void commit_packet(struct conn_state *s, struct claim *cl, struct record *r, u64 offset, u64 info)
{
	u64 now = bpf_ktime_get_ns();

	cl->ecn = SHARED(s->ecn) & ECN_MASK;
	if (cl->ecn)
		info |= (u64)FLAG_MARKED << FLAGS_SHIFT;
	__sync_fetch_and_add(&s->in_flight, cl->packet_len);
	take_from_buckets(s, cl->packet_len, now);
	__sync_lock_test_and_set(&r->pn, NO_PACKET);
	SHARED(r->sent) = now;
	SHARED(r->offset) = offset;
	SHARED(r->info) = info | (u64)cl->data_len << LENGTH_SHIFT | (u64)(cl->packet_len - cl->data_len) << OVERHEAD_SHIFT;
	__sync_lock_test_and_set(&r->pn, cl->number);
	__sync_fetch_and_add(&s->packets, 1);
	__sync_fetch_and_add(&s->bytes, cl->packet_len);
	__sync_fetch_and_add(&s->writers, -1);
}

// claim_bytes takes a packet number, credit and the bytes of a stream, and writes the record. If it returns anything
// but COPY_SENT, it has taken nothing, except perhaps a packet number; QUIC allows unused numbers.
GLOBAL int claim_bytes(struct claim *cl)
{
	if (!cl)
		return COPY_NO_PATH;
	struct conn_state *s = connections_at(cl->subscriber);
	struct stream_state *st = streams_at(cl->slot);
	if (!s || !st)
		return COPY_NO_PATH;
	struct record *r = begin_packet(s, cl);
	if (!r)
		return no_number(s);
	if (!take_credit(s, cl->data_len)) {
		abort_packet(s);
		return COPY_CONNECTION_CREDIT;
	}
	u64 next = cl->to | (cl->fin ? CLOSED_BIT : 0);
	if (!__sync_bool_compare_and_swap(&st->next, cl->from, next)) { // the commit point
		__sync_fetch_and_add(&s->data_sent, -(u64)cl->data_len);
		abort_packet(s);
		return COPY_OUT_OF_ORDER;
	}
	commit_packet(s, cl, r, cl->to + st->delta - cl->data_len,
		      (u32)(st->id / 4) | (u64)(cl->fin ? FLAG_FIN : 0) << FLAGS_SHIFT);
	return COPY_SENT;
}

// claim_packet takes a packet number and writes the record of a datagram, whose object this program has claimed.
GLOBAL int claim_packet(struct claim *cl)
{
	if (!cl)
		return COPY_NO_PATH;
	struct conn_state *s = connections_at(cl->subscriber);
	if (!s)
		return COPY_NO_PATH;
	struct record *r = begin_packet(s, cl);
	if (!r)
		return no_number(s);
	commit_packet(s, cl, r, 0, (u64)KIND_DATAGRAM << FLAGS_SHIFT);
	return COPY_SENT;
}
