// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Events go to user space through a ring buffer, at high rates several at once: each CPU collects a batch. When the
// ring is full they are dropped and counted.
#pragma once

#include "flow.h"

enum event_type {
	EVENT_RTT,
	EVENT_OPENING,
	EVENT_CLOSING,
};

enum close_reason {
	CLOSE_FIN,
	CLOSE_RST,
	CLOSE_TIMEOUT,
	CLOSE_SYN, // the ports are used again
};

// Who opened or closed a flow: one of the ends that the event names, or the clean-up.
enum trigger {
	TRIGGER_SOURCE,
	TRIGGER_DESTINATION,
	TRIGGER_EXPIRY,
};

enum method {
	METHOD_TIMESTAMP,
	METHOD_SEQUENCE,
	METHOD_ECHO,
	METHOD_DNS,
	METHOD_HANDSHAKE,
	METHOD_SPIN,
	METHOD_NTP,
	METHOD_STUN,
};

// An RTT is the time from a packet of the destination to its reply: the source is the host that replied.
struct event {
	u64 time; // ns
	union address source;
	union address destination;
	u16 source_port; // in network order
	u16 destination_port;
	u32 interface;
	u16 vlan;
	u8 protocol; // of IP
	u8 type; // enum event_type
	u8 reason; // of opening or closing
	u8 trigger;
	u8 method;
	u8 egress; // the reply left by the interface
	u64 rtt;
	u64 min_rtt;
	u64 sent_packets; // by the destination
	u64 sent_bytes;
	u64 received_packets; // from the source
	u64 received_bytes;
	u64 far_rtt; // QUIC by its spin bit: from here to the source and back; the rest is to the destination
	u32 retransmissions; // TCP: by the destination
	u16 query_type; // DNS
	u8 rcode;
	u8 flags;
	u32 vni;
	u16 inner_vlan;
	u16 pad;
};
_Static_assert(sizeof(struct event) == 8 + 32 + 8 + 8 + 7 * 8 + 16, "event has no hidden padding");

enum event_flag {
	EVENT_AMBIGUOUS = 1, // DNS, NTP, STUN: the query was repeated
	EVENT_TRUNCATED = 2, // DNS: the TC bit
	EVENT_ONE_DIRECTION = 4, // only packets of the destination are seen: the RTT is the whole path's
};

#define BATCH_MAX 16
// A batch that is not full is handed over this long after its first event, by the next packet or by user space.
#define BATCH_DELAY (50 * MILLISECOND)
// So many events of a CPU in this time are handed over one by one. User space finds them in the ring, and need not
// interrupt the CPU for a batch.
#define LONE_MAX 32

struct batch {
	u64 since; // time of its first event, or of the first lone one
	u32 used;
	u32 busy; // it is being changed
	u32 lone; // events that were handed over one by one since then
	u32 pad;
	struct event events[BATCH_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct batch);
} batches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

// How many CPUs have events in their batches: while none has, user space flushes none.
u32 waiting_batches;

// An event is built here. Packets on one CPU come one after the other. An iterator can be interrupted by a packet, and
// has an event of its own.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct event);
} new_event SEC(".maps");

INLINE struct event *event_new(bool iterator)
{
	u32 index = iterator;
	struct event *e = bpf_map_lookup_elem(&new_event, &index);

	if (e)
		__builtin_memset(e, 0, sizeof(*e));
	return e;
}

// User space looks at the ring at intervals. It is woken up before the ring is full: at a quarter.
INLINE u64 events_wakeup(void)
{
	u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	return waiting > bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

INLINE void events_send(struct event *e, u32 n)
{
	if (bpf_ringbuf_output(&events, e, n * sizeof(*e), events_wakeup()))
		tally_interrupted(TALLY_EVENTS_LOST, n);
	else
		tally_interrupted(TALLY_EVENTS, n);
}

// batch_send hands the batch over. Without the barrier the compiler makes one comparison of two, of n - 1, from which
// the verifier of Linux 6.12 does not learn the bounds of n.
INLINE void batch_send(struct batch *b)
{
	u32 n = b->used;

	b->used = 0;
	if (!n)
		return;
	__sync_fetch_and_add(&waiting_batches, -1);
	barrier_var(n);
	if (n <= BATCH_MAX)
		events_send(b->events, n);
}

// batch_enter claims the CPU's batch. An iterator can be interrupted by a packet and a packet by the flush: the inner
// one finds the batch claimed. They nest on one CPU, so a plain flag is enough.
INLINE struct batch *batch_enter(void)
{
	u32 zero = 0;
	struct batch *b = bpf_map_lookup_elem(&batches, &zero);

	if (!b || b->busy)
		return NULL;
	b->busy = 1;
	return b;
}

INLINE void batch_leave(struct batch *b)
{
	*(volatile u32 *)&b->busy = 0;
}

// batch_lone reports whether an event is handed over alone: there were few lately, and none before it waits.
INLINE bool batch_lone(struct batch *b, u64 now)
{
	if (b->used)
		return false;
	if (now - b->since > BATCH_DELAY) {
		b->since = now;
		b->lone = 0;
	}
	if (b->lone >= LONE_MAX)
		return false;
	b->lone++;
	return true;
}

INLINE void batch_add(struct batch *b, const struct event *e, u64 now)
{
	u32 used = b->used;

	if (used < BATCH_MAX) {
		b->events[used] = *e;
		b->used = used + 1;
	}
	if (!used) {
		b->since = now;
		__sync_fetch_and_add(&waiting_batches, 1);
	}
	if (b->used >= config.batch || now - b->since > BATCH_DELAY)
		batch_send(b);
}

GLOBAL int event_send(struct event *e, u64 now)
{
	struct batch *b;

	if (!e)
		return 0;
	b = batch_enter();
	if (!b || batch_lone(b, now))
		events_send(e, 1);
	else
		batch_add(b, e, now);
	if (b)
		batch_leave(b);
	return 0;
}

// event_ends names the ends of the flow: the destination is the given side, the source replies to it.
INLINE void event_ends(struct event *e, const struct flow_key *key, u8 side)
{
	e->destination = key->address[side & 1];
	e->source = key->address[other(side)];
	e->destination_port = key->port[side & 1];
	e->source_port = key->port[other(side)];
	e->protocol = key->protocol;
	e->interface = key->interface;
	e->vlan = key->vlan;
	e->inner_vlan = key->inner_vlan;
	e->vni = vni_get(key->vni);
}
