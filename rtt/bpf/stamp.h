// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The stamp table holds when an identifier was first seen. It is a set-associative cache: a set is one cache line with
// four stamps, and a new stamp replaces the oldest if the set is full. Stamping takes no lock and no allocation, an
// answered stamp is free at once, and a stamp without an answer needs no clean-up.
#pragma once

#include "flow.h"

#define STAMP_WAYS 4
// An older stamp is not matched. RFC 6298's RTO starts at 1 s; a reply after ten seconds answers another packet.
#define STAMP_LIFETIME (10 * SECOND)

struct stamp_set {
	u64 tag[STAMP_WAYS]; // owner << 32 | identifier; 0 if free
	u64 time[STAMP_WAYS]; // ns
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	// User space does not mmap the map. The flag makes the kernel align the values to pages, and the sets to cache
	// lines.
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct stamp_set);
} stamps SEC(".maps");

// Identifiers of different kinds may be equal, even within a flow.
enum stamp_kind {
	STAMP_TIMESTAMP, // TSval, or an ICMP sequence number
	STAMP_SEQUENCE,
};

INLINE u64 stamp_tag(const struct flow *f, u8 side, enum stamp_kind kind, u32 id)
{
	return (u64)(f->id << 2 | kind << 1 | side) << 32 | id;
}

INLINE struct stamp_set *stamp_find_set(u64 tag)
{
	// Fibonacci hashing: the upper half of the product depends on all bits of the tag.
	u32 index = tag * 0x9e3779b97f4a7c15ull >> 32 & (config.stamp_sets - 1);

	return bpf_map_lookup_elem(&stamps, &index);
}

// stamp_put stores that the tag was seen now, unless it was seen before. The order of the three writes lets
// stamp_take on another CPU notice that its stamp is replaced.
GLOBAL int stamp_put(u64 tag, u64 now)
{
	struct stamp_set *set = stamp_find_set(tag);
	u64 oldest = ~0ull, time;
	u32 way = 0;

	if (!set)
		return 0;
	for (u32 i = 0; i < STAMP_WAYS; i++) {
		if (set->tag[i] == tag)
			return 0;
		time = set->tag[i] ? set->time[i] : 0;
		if (time < oldest) {
			oldest = time;
			way = i;
		}
	}
	way &= STAMP_WAYS - 1;
	if (oldest && now - oldest < STAMP_LIFETIME)
		tally(TALLY_STAMPS_EVICTED);
	__sync_lock_test_and_set(&set->tag[way], 0);
	set->time[way] = now;
	__sync_lock_test_and_set(&set->tag[way], tag);
	tally(TALLY_STAMPS);
	return 0;
}

// stamp_take removes the stamp of a tag and returns its time, or 0. Only one of two CPUs gets it.
GLOBAL u64 stamp_take(u64 tag)
{
	struct stamp_set *set = stamp_find_set(tag);
	u64 time;

	if (!set)
		return 0;
	for (u32 i = 0; i < STAMP_WAYS; i++) {
		if (set->tag[i] != tag)
			continue;
		time = set->time[i];
		return __sync_val_compare_and_swap(&set->tag[i], tag, 0) == tag ? time : 0;
	}
	return 0;
}

// A rate limit that is much longer than a tick needs no better clock.
#define STAMP_COARSE (50 * MILLISECOND)

// rate_due returns whether a side's rate limit allows one more. The clock is when it last did, and is set to now if so.
INLINE bool rate_due(struct packet *p, const struct side *s, u64 *clock)
{
	u64 rtt = config.smoothed ? s->smoothed_rtt : s->min_rtt;
	u64 interval = config.rtt_rate && rtt ? rtt * config.rtt_rate >> 10 : config.stamp_interval;
	u64 now = interval < STAMP_COARSE ? packet_time(p) : clock_coarse();

	// The coarse clock may be behind the time of the last one.
	if (*clock && (s64)(now - *clock) < (s64)interval) {
		tally(TALLY_STAMPS_LIMITED);
		return false;
	}
	*clock = now;
	return true;
}

// stamp_sender stamps an identifier of the packet's sender.
INLINE void stamp_sender(struct packet *p, struct flow *f, enum stamp_kind kind, u32 id)
{
	struct side *s = flow_side(f, p->side);

	s->stamped_id = id; // before stamps: see tcp_answer_sequence
	s->stamps++;
	stamp_put(stamp_tag(f, p->side, kind, id), packet_time(p));
}

// stamp_waits reports whether a stamp of the side may still be answered.
INLINE bool stamp_waits(const struct side *s)
{
	return s->stamps != s->settled;
}

// stamp_answer takes the stamp that a reply to a side names, if there can be one.
INLINE u64 stamp_answer(struct packet *p, struct flow *f, u8 side, enum stamp_kind kind, u32 id)
{
	struct side *s = flow_side(f, side);
	u64 time;

	if (!stamp_waits(s))
		return 0;
	time = stamp_take(stamp_tag(f, side, kind, id));
	if (time)
		s->settled++;
	else if (s->stamped && (s64)(clock_coarse() - s->stamped) > (s64)STAMP_LIFETIME)
		s->settled = s->stamps; // the others were replaced, or are not answered
	return time;
}
