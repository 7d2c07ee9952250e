// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Measures for how long softirqs run while one process is the current one. The kernel charges it for that.
//go:build ignore

#include "process.h"

struct softirq_time {
	u64 since; // CLOCK_MONOTONIC in nanoseconds; 0: none runs
	u64 total; // nanoseconds
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct softirq_time);
} softirqs SEC(".maps");

INLINE struct softirq_time *on_this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&softirqs, &zero);
}

SEC("raw_tp/softirq_entry")
int softirq_entry(void *ctx)
{
	struct softirq_time *s = on_this_cpu();

	if (s && is_current())
		s->since = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/softirq_exit")
int softirq_exit(void *ctx)
{
	struct softirq_time *s = on_this_cpu();

	if (s && s->since) {
		s->total += bpf_ktime_get_ns() - s->since;
		s->since = 0;
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
