// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Groups of prefixes. An address belongs to the group of its longest prefix.
#pragma once

#include "packet.h"

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

INLINE u32 group_of(const union address *a)
{
	struct group_answer answer = { .generation = group_generation };
	struct group_answer *known = bpf_map_lookup_elem(&group_answers, a);

	if (known && known->generation == answer.generation)
		return known->number;
	answer.number = group_ask(a);
	bpf_map_update_elem(&group_answers, a, &answer, BPF_ANY);
	return answer.number;
}
