// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Whether an aggregate is under load: whether its hosts have sent or received so many bytes in the second before.
//
// Each CPU counts by itself. It hands over the bytes of a second with its first packet of a later one, so that all CPUs
// write to one entry once a second, and not with every packet. A second whose bytes are still to be handed over by
// some CPU looks less loaded than it was, until the next packet there.
#pragma once

#include "packet.h"

struct load_second {
	u32 second;
	u32 pad;
	u64 bytes[2]; // received, sent
};

struct load_entry {
	struct bpf_spin_lock lock;
	u32 pad;
	struct load_second seconds[2]; // the even and the odd one
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix_key);
	__type(value, struct load_entry);
} prefix_loads SEC(".maps");

const struct load_entry no_load;

INLINE u32 load_now(void)
{
	return clock_coarse() / SECOND;
}

INLINE struct load_entry *load_find(const struct prefix_key *key)
{
	struct load_entry *e = bpf_map_lookup_elem(&prefix_loads, key);

	if (e)
		return e;
	bpf_map_update_elem(&prefix_loads, key, &no_load, BPF_NOEXIST);
	return bpf_map_lookup_elem(&prefix_loads, key);
}

// load_hand_over adds what a CPU has counted in a second to what the others have, unless a newer second has taken the
// place: the CPU had no packet for long.
GLOBAL int load_hand_over(const struct load_second *counted, const struct prefix_key *key)
{
	struct load_second *all;
	struct load_entry *e;
	u64 received, sent;
	u32 second;

	if (!counted || !key)
		return 0;
	e = load_find(key);
	if (!e)
		return 0;
	second = counted->second;
	received = counted->bytes[0];
	sent = counted->bytes[1];
	all = &e->seconds[second & 1];
	bpf_spin_lock(&e->lock);
	if ((s32)(second - all->second) > 0) {
		all->second = second;
		all->bytes[0] = all->bytes[1] = 0;
	}
	if (all->second == second) {
		all->bytes[0] += received;
		all->bytes[1] += sent;
	}
	bpf_spin_unlock(&e->lock);
	return 0;
}

INLINE void load_count(struct load_second *s, const struct prefix_key *key, bool sends, u32 bytes)
{
	u32 now = load_now();

	if (s->second != now) {
		if (s->bytes[0] || s->bytes[1])
			load_hand_over(s, key);
		s->second = now;
		s->bytes[0] = s->bytes[1] = 0;
	}
	s->bytes[sends] += bytes;
}

// load_is_high reports whether an aggregate is under load.
INLINE bool load_is_high(const struct prefix_key *key)
{
	struct load_entry *e = bpf_map_lookup_elem(&prefix_loads, key);
	const struct load_second *last;
	u32 before = load_now() - 1;

	if (!e)
		return false;
	last = &e->seconds[before & 1];
	return last->second == before && (last->bytes[0] >= config.load || last->bytes[1] >= config.load);
}
