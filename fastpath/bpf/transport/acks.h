// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Packets that have nothing but an ACK frame and PADDING. User space is told about them later, when it is awake: their
// plaintext goes into a queue, and the packet is dropped. They are most of what subscribers send, and each would wake
// the process.
//
// Nothing is decoded here but what says whether the ACK is urgent: user space has to read the ranges anyway. There are
// no wake-ups either: user space knows itself when it needs ACKs.
#pragma once

#include "../shared/state.h"
#include "frames.h"

// is_urgent returns why user space should see the ACK at once, or ACK_TAKEN.
INLINE enum reason is_urgent(struct scratch *c, struct publisher *p, struct conn_state *s)
{
	u32 at = c->ack_at;
	u64 largest = read_varint(c, &at);

	// The compiler knows where the integers are at most, and that the mask in AT changes nothing. The verifier does
	// not: barrier_var keeps the mask.
	barrier_var(at);
	skip_varint(c, &at); // ACK Delay
	barrier_var(at);
	skip_varint(c, &at); // ACK Range Count
	barrier_var(at);
	u64 first = read_varint(c, &at), acked = SHARED(p->acked);

	if (largest >= (SHARED(s->next_pn) & NUMBER_MASK))
		return ACK_UNSENT;
	if (largest > acked)
		SHARED(p->acked) = largest; // another CPU may be faster: then one more ACK seems to have a gap, or one less
	if (largest - first > acked + 1)
		return ACK_OF_GAP;
	return SHARED(s->in_flight) * 2 > SHARED(s->window) ? ACK_OF_WINDOW : ACK_TAKEN;
}

// queue_packet puts the packet in the scratch into its connection's queue.
INLINE enum reason queue_packet(struct scratch *c, struct publisher *p, u32 connection)
{
	u32 queue = p->queue, len = c->len;
	void *ring = bpf_map_lookup_elem(&taken_packets, &queue);
	struct taken_packet *t = (struct taken_packet *)(c->buf + IN + PAYLOAD_AT - sizeof(*t));

	barrier_var(len); // see open_packet
	if (!ring || len > MAX_TAKEN)
		return ACK_NOT_ALONE;
	if (SHARED(p->waiting) >= TAKEN_SHARE)
		return ACK_SHARE;
	t->connection = connection;
	t->len = len;
	t->ecn = c->ecn;
	t->pad = 0;
	t->pn = c->pn;
	t->received = bpf_ktime_get_ns();
	__sync_fetch_and_add(&p->waiting, 1); // before user space can take it out
	if (!bpf_ringbuf_output(ring, t, sizeof(*t) + len, BPF_RB_NO_WAKEUP))
		return ACK_TAKEN;
	__sync_fetch_and_add(&p->waiting, -1);
	return ACK_NO_ROOM;
}

// take_ack takes a packet with nothing but an ACK, which begins at ack_at. If it returns anything but ACK_TAKEN, the
// packet is for user space.
GLOBAL int take_ack(struct scratch *c, u32 connection)
{
	struct conn_state *s = connections_at(connection);
	struct publisher *p = publishers_at(connection);

	if (!c || !p || !s)
		return PACKET_NOT_MEDIA;
	u32 taking = SHARED(p->taking);
	if (taking < TAKES_ACKS)
		return p->active ? PACKET_OPENED : ACK_PAUSED;
	if (taking - TAKES_ACKS != c->key_phase)
		return ACK_OTHER_PHASE;
	enum reason why = is_urgent(c, p, s);
	return why == ACK_TAKEN ? queue_packet(c, p, connection) : why;
}
