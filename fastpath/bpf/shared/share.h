// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Shares of the maps subgroups and objects and of the rings of jobs, so that one publisher of many short streams, small
// objects or packets does not take the fast path away from all others.
//
// A publisher may have as many entries as are free. So one alone may fill half of a map. If n publishers want all they
// can get, each has the (n + 1)th part of the map, and so much is still free for the next. Both senders make entries;
// user space removes them, and then subtracts them here. The check and the addition are not one atomic operation: a few
// entries too many do no harm.
//
// In rtp_ingress all medias that come from one IPv4 address or IPv6 /64 count as one publisher. It has jobs only, in
// the same rings.
#pragma once

#include "maps.h"

enum share_kind {
	SHARE_SUBGROUPS,
	SHARE_OBJECTS,
	SHARE_JOBS,
	SHARE_KINDS,
};

// How many entries exist because of one publisher, or of all.
struct held {
	u32 entries[SHARE_KINDS];
	u32 pad;
};

GROWING(held_by_each, MAX_CONNECTIONS, struct held) // by publisher
SHARED_ARRAY(held_by_all, 1, struct held);

const volatile u32 share_sizes[SHARE_KINDS] = { MAX_SUBGROUPS, MAX_OBJECTS, 0 }; // of the maps and rings

// may_hold reports whether a publisher may have one more entry.
static __noinline __attribute__((unused)) int may_hold(u32 publisher, enum share_kind kind)
{
	u32 zero = 0;
	struct held *own = held_by_each_at(publisher), *all = bpf_map_lookup_elem(&held_by_all, &zero);

	if (!own || !all || kind >= SHARE_KINDS)
		return 0;
	u32 used = *(volatile u32 *)&all->entries[kind], size = share_sizes[kind];
	return used < size && *(volatile u32 *)&own->entries[kind] < size - used;
}

// hold counts entries that were made for a publisher.
static __noinline __attribute__((unused)) int hold(u32 publisher, enum share_kind kind, s32 entries)
{
	u32 zero = 0;
	struct held *own = held_by_each_at(publisher), *all = bpf_map_lookup_elem(&held_by_all, &zero);

	if (!own || !all || kind >= SHARE_KINDS)
		return -1;
	__sync_fetch_and_add(&own->entries[kind], entries);
	__sync_fetch_and_add(&all->entries[kind], entries);
	return 0;
}

GO_TYPE(enum, share_kind);
