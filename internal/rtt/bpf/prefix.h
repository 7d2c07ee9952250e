// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Aggregation: traffic and RTTs of each network prefix, for one period after the other. With config.groups it is those
// of each group of prefixes, and the key is the group's number.
//
// Each entry has the values of two periods. User space starts a period by incrementing period, and then reads the
// values of the period before, which no longer change. A program that finds values of an older period clears them
// first.
#pragma once

#include "bins.h"
#include "flow.h"

struct traffic_period {
	u32 period;
	u32 pad;
	struct traffic sent[TRAFFIC_CLASSES]; // by hosts of the prefix
	struct traffic received[TRAFFIC_CLASSES];
	u64 retransmissions; // of TCP segments, by and to hosts of the prefix
	u64 ecn_capable; // packets by and to them that say so (RFC 3168)
	u64 ecn_marked; // those of them that have met congestion
};

struct traffic_entry {
	struct traffic_period periods[2];
};

struct rtt_period {
	u32 period;
	u32 count;
	u64 sum; // ns, as all times
	u64 min;
	u64 max;
	u32 bins[BINS]; // the last one also counts all longer RTTs
};

struct rtt_entry {
	struct bpf_spin_lock lock;
	u32 pad;
	struct rtt_period periods[2];
};

// Every packet is counted, and each CPU counts by itself. An entry takes memory only once the prefix is seen.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, union address);
	__type(value, struct traffic_entry);
} prefix_traffic SEC(".maps");

// RTTs are few in comparison: all CPUs share one histogram, which is the large part.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, union address);
	__type(value, struct rtt_entry);
} prefix_rtts SEC(".maps");

volatile u32 period;

// New entries are copied from here.
const struct traffic_entry no_traffic;
const struct rtt_entry no_rtts;

// prefix_of returns the prefix of an address. With no bits it is the prefix of all addresses of the family.
INLINE union address prefix_of(const union address *a, u64 ipv6_mask, u32 ipv4_mask)
{
	union address p = *a;

	if (p.halves[0] == 0 && p.words[2] == bpf_htonl(0xffff)) {
		p.words[3] &= ipv4_mask;
	} else {
		p.halves[0] &= ipv6_mask;
		p.halves[1] = 0;
	}
	return p;
}

struct group_lookup {
	u32 bits;
	u32 address[4]; // a union address, without a gap before it
};

// The number of the group that a prefix belongs to. Addresses without a group have 0.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct group_lookup);
	__type(value, u32);
} groups SEC(".maps");

INLINE union address group_key(u32 number)
{
	union address key = {};

	key.words[3] = number;
	return key;
}

// A look at the groups takes longer than all else, so their answers are kept. User space increments group_generation
// when it has changed the groups, and answers of an older generation are nothing.
struct group_answer {
	u32 generation;
	u32 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, union address);
	__type(value, struct group_answer);
} group_answers SEC(".maps");

volatile u32 group_generation;

INLINE u32 group_ask(const union address *a)
{
	struct group_lookup lookup = { .bits = 8 * sizeof(*a) };
	u32 *number;

	__builtin_memcpy(lookup.address, a, sizeof(*a));
	number = bpf_map_lookup_elem(&groups, &lookup);
	return number ? *number : 0;
}

INLINE union address group_of(const union address *a)
{
	struct group_answer answer = { .generation = group_generation };
	struct group_answer *known = bpf_map_lookup_elem(&group_answers, a);

	if (known && known->generation == answer.generation)
		return group_key(known->number);
	answer.number = group_ask(a);
	bpf_map_update_elem(&group_answers, a, &answer, BPF_ANY);
	return group_key(answer.number);
}

INLINE union address prefix_key(const union address *a)
{
	if (config.groups)
		return group_of(a);
	return prefix_of(a, config.ipv6_mask, config.ipv4_mask);
}

// prefix_whole is the key of all addresses of a family, which user space adds at the start. It is used when the map is
// full.
INLINE union address prefix_whole(const union address *a)
{
	tally(TALLY_PREFIXES_FULL);
	if (config.groups)
		return group_key(0);
	return prefix_of(a, 0, 0);
}

INLINE struct traffic_entry *prefix_find_traffic(const union address *a)
{
	union address key = prefix_key(a);
	struct traffic_entry *t = bpf_map_lookup_elem(&prefix_traffic, &key);

	if (t)
		return t;
	bpf_map_update_elem(&prefix_traffic, &key, &no_traffic, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&prefix_traffic, &key);
	if (t)
		return t;
	key = prefix_whole(a);
	return bpf_map_lookup_elem(&prefix_traffic, &key);
}

// prefix_find_rtts adds only prefixes whose traffic has an entry, so that traffic and RTTs of a prefix come from the
// same packets. Traffic is counted before RTTs: a reply answers a packet that was sent to its prefix.
INLINE struct rtt_entry *prefix_find_rtts(const union address *a)
{
	union address key = prefix_key(a);
	struct rtt_entry *r = bpf_map_lookup_elem(&prefix_rtts, &key);

	if (r)
		return r;
	if (bpf_map_lookup_elem(&prefix_traffic, &key))
		bpf_map_update_elem(&prefix_rtts, &key, &no_rtts, BPF_NOEXIST);
	r = bpf_map_lookup_elem(&prefix_rtts, &key);
	if (r)
		return r;
	key = prefix_whole(a);
	return bpf_map_lookup_elem(&prefix_rtts, &key);
}

INLINE struct traffic_period *prefix_traffic_of(const union address *a)
{
	struct traffic_entry *t = prefix_find_traffic(a);
	struct traffic_period *v;
	u32 now = period;

	if (!t)
		return NULL;
	v = &t->periods[now & 1];
	if (v->period != now) {
		__builtin_memset(v, 0, sizeof(*v));
		v->period = now;
	}
	return v;
}

INLINE void traffic_add(struct traffic *t, const struct packet *p)
{
	t->packets += p->segments;
	t->bytes += p->frame;
}

INLINE void prefix_signs_of_congestion(struct traffic_period *v, const struct packet *p)
{
	v->retransmissions += p->retransmitted;
	if (p->ecn)
		v->ecn_capable += p->segments;
	if (p->ecn == 3)
		v->ecn_marked += p->segments;
}

// prefix_count counts a packet for the prefixes of its sender and of its receiver.
GLOBAL int prefix_count(const struct packet *p)
{
	struct traffic_period *v;
	u32 class;

	if (!p)
		return 0;
	class = p->class;
	if (class >= TRAFFIC_CLASSES)
		return 0;
	v = prefix_traffic_of(&p->key.address[p->side & 1]);
	if (v) {
		traffic_add(&v->sent[class], p);
		prefix_signs_of_congestion(v, p);
	}
	v = prefix_traffic_of(&p->key.address[other(p->side)]);
	if (v) {
		traffic_add(&v->received[class], p);
		prefix_signs_of_congestion(v, p);
	}
	return 0;
}

INLINE void prefix_rtt_put(struct rtt_period *v, u32 now, u64 rtt, u32 bin)
{
	if (v->period != now) {
		v->period = now;
		v->count = 0;
		v->sum = v->max = 0;
		for (u32 i = 0; i < BINS; i++) // too long for the compiler's memset
			*(volatile u32 *)&v->bins[i] = 0;
	}
	if (!v->count || rtt < v->min)
		v->min = rtt;
	if (rtt > v->max)
		v->max = rtt;
	v->sum += rtt;
	v->count++;
	v->bins[bin]++;
}

// prefix_rtt adds an RTT of one side's packets to the prefix of the host that replied, or of the host that it replied
// to.
GLOBAL int prefix_rtt(const struct flow_key *key, u8 side, u64 rtt)
{
	struct rtt_entry *r;
	u32 now = period, bin;

	if (!key)
		return 0;
	r = prefix_find_rtts(&key->address[config.reverse ? side & 1 : other(side)]);
	if (!r)
		return 0;
	bin = bin_of(rtt);
	bpf_spin_lock(&r->lock);
	prefix_rtt_put(&r->periods[now & 1], now, rtt, bin);
	bpf_spin_unlock(&r->lock);
	return 0;
}
