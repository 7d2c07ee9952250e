// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// An operator's program for tests. Of groups below MIXED it admits those with an even number. For the others it mixes
// all that it is asked, but for the times, to any answer: so two senders that ask differently get other answers.
//go:build ignore

#include "../policy/admission.h"

#define MIXED (1ULL << 32)
#define SECOND 1000000000ULL

const volatile u32 answers = DECLINE + 2; // one more than there are

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); // how often; and how often without the length of a packet
	__type(key, u32);
	__type(value, u64);
} asked SEC(".maps");

// bucket_class has the name of a function of the relay's programs, in which it is another one.
__attribute__((noinline)) u64 bucket_class(struct admission *a)
{
	if (!a)
		return 0;
	u64 filled = a->bucket_cost ? (u64)(a->bucket + (s64)(100 * SECOND)) / (100 * SECOND) : 0;
	u64 mix = a->group;

	mix = mix * 31 + a->window;
	mix = mix * 31 + a->in_flight;
	mix = mix * 31 + filled;
	mix = mix * 31 + a->bucket_burst;
	mix = mix * 31 + a->bucket_cost;
	mix = mix * 31 + a->bucket_class;
	mix = mix * 31 + a->level;
	mix = mix * 31 + a->threshold;
	mix = mix * 31 + a->packet_len;
	mix = mix * 31 + a->reserved;
	mix = mix * 31 + (a->now > 0);
	mix = mix * 31 + a->age / SECOND;
	return mix >> 3 ^ mix;
}

SEC("policy") int admit(struct admission *a)
{
	u32 zero = 0, one = 1;
	u64 *n = bpf_map_lookup_elem(&asked, &zero), *without = bpf_map_lookup_elem(&asked, &one);

	if (!a || !n || !without)
		return DECLINE;
	__sync_fetch_and_add(n, 1);
	if (!a->packet_len)
		__sync_fetch_and_add(without, 1);
	if (a->group < MIXED)
		return a->group % 2 ? DECLINE : ADMIT;
	return bucket_class(a) % answers;
}

char _license[] SEC("license") = "Dual BSD/GPL";
