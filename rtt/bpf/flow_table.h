// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// How flows come into the flow table, and which of them give way when it is full.
//
// Anybody can send packets that begin a flow. So a flow keeps its place only when its two ends have shown that they
// hear one another: with TCP one has acknowledged the other's data, and with QUIC the opener has used the connection ID
// that the answerer has shown. A SYN, an Initial or a ping with a false source gets a reply from a host, but no more
// than that. Flows that are not confirmed give way to new ones, the oldest first, and time out soon.
//
// Somebody who sends the packets of both ends can pretend all of that, and nothing here can tell. So can the sender of
// one end's packets, if the other's are not seen. So a confirmed flow gives way, too, once it is silent: whoever wants
// to keep places has to send packets for each of them. A silent flow is found by its key. Once as many other flows have
// been created as there are keys, it stays until it times out.
#pragma once

#include <linux/errno.h>

#include "ip.h"
#include "report.h"

#define FLOW_SILENCE (30 * SECOND) // then a confirmed flow may give way
#define FLOWS_TRIED 16 // bounds the time of a packet; in a flood most recent flows are not confirmed
#define SILENT_FLOWS_TRIED 4 // there may be none for long
#define YOUNG_FLOWS 8 // the youngest of so many parts of the flows have time to be confirmed, if others are silent

// A new flow is built here: it is too large for the stack.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flow);
} new_flow SEC(".maps");

// The keys of the flows that were created last, in the order of their creation.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flow_key);
} recent_flows SEC(".maps");

u32 newest_recent; // number of the key that was added last
u32 oldest_recent; // number of the key up to which all flows are gone or confirmed
u32 silent_recent; // number of the key that was looked at last because its flow might be silent

u32 last_flow_id;

INLINE struct flow_key *recent_flow(u32 number)
{
	u32 index = number & (config.recent_flows - 1);

	return bpf_map_lookup_elem(&recent_flows, &index);
}

INLINE void flow_remember(const struct flow_key *key)
{
	struct flow_key *slot = recent_flow(__sync_fetch_and_add(&newest_recent, 1) + 1);

	if (slot)
		*slot = *key;
}

// flow_is_confirmed reports whether the ends have shown that they hear one another. A host that is not seen does if the
// timestamps that the other one echoes go on: that can be pretended, but without it, a flood of SYNs would take the
// places of all such connections. Pings never do: they need nothing that was before.
INLINE bool flow_is_confirmed(const struct flow_key *key, const struct flow *f)
{
	if (key->protocol == IP_TCP)
		return f->tcp.confirmed || f->tcp.alone.ticks;
	if (key->protocol != IP_UDP || f->moving || f->quic.phase != QUIC_CONFIRMED)
		return false;
	return f->side[0].state == SIDE_OPEN || f->side[1].state == SIDE_OPEN;
}

INLINE u64 flow_seen(const struct flow *f)
{
	return f->side[0].seen > f->side[1].seen ? f->side[0].seen : f->side[1].seen;
}

// flow_ended reports that an open side is forgotten.
INLINE void flow_ended(bool iterator, const struct flow_key *key, u8 side, u64 now)
{
	struct event *e = flow_event(iterator, key, side, EVENT_CLOSING, now);

	if (!e)
		return;
	e->reason = CLOSE_TIMEOUT;
	e->trigger = TRIGGER_EXPIRY;
	event_send(e, now);
}

// Outcomes for the flow of a recent key.
enum standing {
	STANDING_STAYS, // or it is gone
	STANDING_UNCONFIRMED,
	STANDING_SILENT,
};

INLINE enum standing flow_standing(const struct flow_key *key, const struct flow *f)
{
	if (!flow_is_confirmed(key, f))
		return STANDING_UNCONFIRMED;
	// Another CPU may have seen a packet since the clock was read.
	return (s64)(clock_coarse() - flow_seen(f)) < (s64)FLOW_SILENCE ? STANDING_STAYS : STANDING_SILENT;
}

GLOBAL enum standing recent_standing(u32 number)
{
	struct flow_key *slot = recent_flow(number), key;
	struct flow *f;

	if (!slot)
		return STANDING_STAYS;
	key = *slot; // the map only accepts a key on the stack
	f = bpf_map_lookup_elem(&flows, &key);
	return f ? flow_standing(&key, f) : STANDING_STAYS;
}

// recent_gives_way removes the flow of a recent key if that has the standing. Two CPUs may look at the same key, or at
// one that is being overwritten: then the lookup fails, or finds another such flow.
GLOBAL int recent_gives_way(u32 number, enum standing standing)
{
	struct flow_key *slot = recent_flow(number), key;
	struct flow *f;
	bool open[2];

	if (!slot)
		return 0;
	key = *slot;
	f = bpf_map_lookup_elem(&flows, &key);
	if (!f || flow_standing(&key, f) != standing)
		return 0;
	open[0] = f->side[0].state == SIDE_OPEN;
	open[1] = f->side[1].state == SIDE_OPEN;
	if (bpf_map_delete_elem(&flows, &key))
		return 0;
	tally(TALLY_FLOWS_EVICTED);
	for (u8 side = 0; side < 2; side++)
		if (open[side])
			flow_ended(false, &key, side, clock_now());
	return 1;
}

// flow_evict_silent goes round the keys, a few at a time.
INLINE int flow_evict_silent(void)
{
	for (u32 i = 0; i < SILENT_FLOWS_TRIED; i++)
		if (recent_gives_way(++silent_recent, STANDING_SILENT))
			return 1;
	return 0;
}

// flow_find_unconfirmed finds the number of the oldest flow that is not confirmed. It passes each key once: a flow that
// is confirmed stays so, or is remembered again. It returns whether there is such a flow among those that it looked at.
INLINE bool flow_find_unconfirmed(u32 *number)
{
	for (u32 i = 0; i < FLOWS_TRIED; i++) {
		u32 newest = newest_recent, at = oldest_recent;

		if (at == newest)
			return false;
		if (newest - at > config.recent_flows)
			at = newest - config.recent_flows; // the keys before were overwritten
		if (recent_standing(at + 1) == STANDING_UNCONFIRMED) {
			oldest_recent = at;
			*number = at + 1;
			return true;
		}
		oldest_recent = at + 1;
	}
	return false;
}

// flow_evict makes room for a flow. It returns 0 if none of the flows that it looked at may give way. When confirmed
// flows have nearly all places, a new flow would have to give way to the next one before it can be confirmed: then
// silent ones are sought first. If two CPUs find the same flow, it gives way to one of them, and the other's flow waits
// for its next packet.
GLOBAL int flow_evict(void)
{
	u32 number = 0;
	bool found = flow_find_unconfirmed(&number);

	if (newest_recent - oldest_recent < config.recent_flows / YOUNG_FLOWS && flow_evict_silent())
		return 1;
	if (!found)
		return 0;
	oldest_recent = number;
	return recent_gives_way(number, STANDING_UNCONFIRMED);
}

// flow_add adds a flow to the table. BPF_NOEXIST: if two CPUs add the entry at once, one succeeds, and both find that
// entry.
INLINE long flow_add(const struct flow_key *key, const struct flow *f)
{
	long failed = bpf_map_update_elem(&flows, key, f, BPF_NOEXIST);

	if (failed == -E2BIG && flow_evict())
		failed = bpf_map_update_elem(&flows, key, f, BPF_NOEXIST);
	if (!failed)
		flow_remember(key);
	return failed;
}

// flow_create adds the packet's flow. It returns NULL when the table is full of flows that stay.
INLINE struct flow *flow_create(const struct packet *p)
{
	u32 zero = 0;
	struct flow *new = bpf_map_lookup_elem(&new_flow, &zero);

	if (!new)
		return NULL;
	__builtin_memset(new, 0, sizeof(*new));
	// Two bits of a stamp's owner are the side and the kind of identifier.
	new->id = (__sync_fetch_and_add(&last_flow_id, 1) & 0x3fffffff) + 1;
	new->side[0].to_local = is_local(&p->key.address[1]);
	new->side[1].to_local = is_local(&p->key.address[0]);
	if (!flow_add(&p->key, new))
		tally(TALLY_FLOWS_CREATED);
	new = flow_find(p);
	if (!new)
		tally(TALLY_FLOWS_FULL);
	return new;
}
