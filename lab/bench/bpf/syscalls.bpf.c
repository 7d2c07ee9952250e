// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Counts the system calls of one process, by number, and takes their time.
//go:build ignore

#include "process.h"

#define NUMBERS 1024 // more than any architecture has
#define THREADS 1024 // that are in a system call; the time of others is not taken

struct usage {
	u64 count, ns; // ns: CLOCK_MONOTONIC, of the calls that have returned
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUMBERS);
	__type(key, u32);
	__type(value, struct usage);
} calls SEC(".maps");

struct call {
	u64 since;
	u32 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, THREADS);
	__type(key, u32); // thread
	__type(value, struct call);
} running SEC(".maps");

const volatile u32 process; // to count

SEC("raw_tp/sys_enter")
int sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	u32 thread = bpf_get_current_pid_tgid();
	struct call call = { .number = ctx->args[1] };
	struct usage *all;

	if (current_process() != process)
		return 0;
	all = bpf_map_lookup_elem(&calls, &call.number);
	if (!all)
		return 0;
	all->count++;
	call.since = bpf_ktime_get_ns();
	bpf_map_update_elem(&running, &thread, &call, BPF_ANY);
	return 0;
}

SEC("raw_tp/sys_exit")
int sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call;
	struct usage *all;

	call = bpf_map_lookup_elem(&running, &thread);
	if (!call)
		return 0;
	all = bpf_map_lookup_elem(&calls, &call->number);
	if (all)
		all->ns += bpf_ktime_get_ns() - call->since;
	bpf_map_delete_elem(&running, &thread);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
