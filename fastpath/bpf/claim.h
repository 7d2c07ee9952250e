// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The claim protocol of the Go package media (claim.go), from the kernel's side: look, begin, take, commit. Nothing is
// taken that cannot be given back until the compare-and-swap of next, which is the commit point.
#pragma once

#include "reason.h"
#include "state.h"

static __noinline struct record *ledger_record(u32 subscriber, u64 number)
{
	void *ledger = bpf_map_lookup_elem(&ledgers, &subscriber);
	u32 key = number & (LEDGER_LEN - 1);

	return ledger ? bpf_map_lookup_elem(ledger, &key) : 0;
}

INLINE void abort_packet(struct subscriber_state *s)
{
	__sync_fetch_and_add(&s->writers, -1);
}

// take_credit takes n bytes of connection flow control credit, or nothing.
INLINE int take_credit(struct subscriber_state *s, u64 n)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		u64 sent = *(volatile u64 *)&s->data_sent;
		if (sent + n > *(volatile u64 *)&s->data_limit)
			return 0;
		if (__sync_bool_compare_and_swap(&s->data_sent, sent, sent + n))
			return 1;
	}
	return 0;
}

// look checks what can be checked without taking anything.
INLINE enum reason look(struct subscriber_state *s, u32 level, const struct claim *cl)
{
	if (level > s->threshold)
		return COPY_PRIORITY;
	if (cl->packet_len > s->mtu)
		return COPY_TOO_LARGE;
	if (*(volatile u64 *)&s->in_flight + cl->packet_len > s->window)
		return COPY_WINDOW;
	u64 used = (*(volatile u64 *)&s->next_pn & NUMBER_MASK) - s->ledger_low;
	if (used >= LEDGER_LEN - LEDGER_LEN / 4) // the same reserve that user space keeps
		return COPY_LEDGER_FULL;
	return COPY_SENT;
}

// begin_packet announces a packet, takes its number and returns its record; 0, and nothing is announced, if the record is
// still needed.
INLINE struct record *begin_packet(struct subscriber_state *s, struct claim *cl)
{
	__sync_fetch_and_add(&s->writers, 1);
	u64 word = __sync_fetch_and_add(&s->next_pn, 1);
	cl->number = word & NUMBER_MASK;
	cl->generation = word >> GENERATION_SHIFT;
	struct record *r = ledger_record(cl->subscriber, cl->number);
	if (r && cl->number - *(volatile u64 *)&s->ledger_low < LEDGER_LEN)
		return r;
	abort_packet(s);
	return 0;
}

// commit_packet records the packet. info lacks its lengths.
INLINE void commit_packet(struct subscriber_state *s, const struct claim *cl, struct record *r, u64 offset, u64 info)
{
	__sync_fetch_and_add(&s->in_flight, cl->packet_len);
	__sync_lock_test_and_set(&r->pn, RECORD_NONE); // an exchange orders what is around it on every architecture
	*(volatile u64 *)&r->sent = bpf_ktime_get_ns();
	*(volatile u64 *)&r->offset = offset;
	*(volatile u64 *)&r->info = info | (u64)cl->data_len << 32 | (u64)(cl->packet_len - cl->data_len) << 48;
	__sync_lock_test_and_set(&r->pn, cl->number);
	__sync_fetch_and_add(&s->packets, 1);
	__sync_fetch_and_add(&s->bytes, cl->packet_len);
	__sync_fetch_and_add(&s->writers, -1);
}

// claim_bytes takes a packet number, credit and the bytes, and writes the record. What it returns other than COPY_SENT
// has taken nothing but perhaps a packet number, which QUIC allows to stay unused.
__noinline int claim_bytes(struct claim *cl)
{
	if (!cl)
		return COPY_NO_PATH;
	struct subscriber_state *s = bpf_map_lookup_elem(&subscribers, &cl->subscriber);
	struct stream_state *st = bpf_map_lookup_elem(&streams, &cl->slot);
	if (!s || !st)
		return COPY_NO_PATH;
	if (*(volatile u64 *)&st->next != cl->from)
		return COPY_OUT_OF_ORDER;
	if (cl->to + st->delta > *(volatile u64 *)&st->limit)
		return COPY_STREAM_CREDIT;
	enum reason why = look(s, st->level, cl);
	if (why != COPY_SENT)
		return why;

	struct record *r = begin_packet(s, cl);
	if (!r)
		return COPY_LEDGER_FULL;
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
	commit_packet(s, cl, r, cl->to + st->delta - cl->data_len, (u32)(st->id / 4) | (u64)(cl->fin ? RECORD_FIN : 0) << 56);
	return COPY_SENT;
}

// claim_packet takes a packet number and writes the record of a datagram, whose object this program has claimed.
__noinline int claim_packet(struct claim *cl, u32 level)
{
	if (!cl)
		return COPY_NO_PATH;
	struct subscriber_state *s = bpf_map_lookup_elem(&subscribers, &cl->subscriber);
	if (!s)
		return COPY_NO_PATH;
	enum reason why = look(s, level, cl);
	if (why != COPY_SENT)
		return why;
	struct record *r = begin_packet(s, cl);
	if (!r)
		return COPY_LEDGER_FULL;
	commit_packet(s, cl, r, 0, (u64)RECORD_KIND_DATAGRAM << 56);
	return COPY_SENT;
}
