// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// How long packets stay in the relay: from when a publisher's packet comes to server_ingress until a copy of it has
// been handed to the subscriber's device. Nothing is measured while user space has not asked for it: reading the clock
// for each copy costs about one per cent of it.
#pragma once

#include "maps.h"
#include "scratch.h"

// The bins of a histogram of delays, in nanoseconds. The first bin is for all below 2^BIN_FIRST, the last for all from
// 2^BIN_LAST on. Between them each power of two has 2^BIN_STEPS bins.
enum delay_bins {
	BIN_FIRST = 10, // 1 µs
	BIN_LAST = 30, // 1 s
	BIN_STEPS = 2,
	BINS = 82,
};
_Static_assert(BINS == ((BIN_LAST - BIN_FIRST) << BIN_STEPS) + 2, "the bins cover all delays");

// The delays of the copies that one CPU has made.
struct delay_counts {
	u64 sum; // nanoseconds
	u64 bins[BINS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct delay_counts);
} delays SEC(".maps");

// Not 0 while delays are measured.
SHARED_ARRAY(measuring, 1, u64);

// time_if_measuring returns CLOCK_MONOTONIC in nanoseconds, or 0 if nothing is measured.
static __noinline u64 time_if_measuring(void)
{
	u32 zero = 0;
	u64 *on = bpf_map_lookup_elem(&measuring, &zero);

	return on && SHARED(*on) ? bpf_ktime_get_ns() : 0;
}

// delay_bin returns the bin of a delay.
INLINE u32 delay_bin(u64 ns)
{
	if (ns < 1 << BIN_FIRST)
		return 0;
	if (ns >> BIN_LAST)
		return BINS - 1;
	u32 v = ns, log = 0;
	if (v >> 16)
		log = 16;
	if (v >> (log + 8))
		log += 8;
	if (v >> (log + 4))
		log += 4;
	if (v >> (log + 2))
		log += 2;
	if (v >> (log + 1))
		log += 1;
	return 1 + ((log - BIN_FIRST) << BIN_STEPS) + (v >> (log - BIN_STEPS) & ((1 << BIN_STEPS) - 1));
}

// note_delay counts the delay of a copy that has just left. Runs on one CPU do not interrupt each other, as for the
// scratch.
static __noinline int note_delay(const struct scratch *c)
{
	u32 zero = 0;
	struct delay_counts *d = bpf_map_lookup_elem(&delays, &zero);

	if (!d || !c->arrived)
		return 0;
	u64 ns = bpf_ktime_get_ns() - c->arrived;
	u32 bin = delay_bin(ns);
	barrier_var(bin); // the compiler knows that it is small, and would leave out the comparison that the verifier needs
	if (bin >= BINS)
		return 0;
	d->sum += ns;
	d->bins[bin]++;
	return 0;
}

GO_TYPE(enum, delay_bins);
