// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Counts the system calls of one process, by number.
//go:build ignore

#include "process.h"

#define NUMBERS 1024 // more than any architecture has

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUMBERS);
	__type(key, u32);
	__type(value, u64);
} calls SEC(".maps");

const volatile u32 process; // to count

SEC("raw_tp/sys_enter")
int sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	u32 number = ctx->args[1];
	u64 *count;

	if (current_process() != process)
		return 0;
	count = bpf_map_lookup_elem(&calls, &number);
	if (count)
		(*count)++;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
