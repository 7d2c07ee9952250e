// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Counts the system calls of one process, by number.
//go:build ignore

#include <sluice/types.h>

#define NUMBERS 1024 // more than any architecture has

// The process, by its id in the PID namespace that these device and inode numbers name. bpf_get_current_pid_tgid would
// return its id in the first PID namespace, which a process in a container does not know.
const volatile u64 device, inode;
const volatile u32 process;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUMBERS);
	__type(key, u32);
	__type(value, u64);
} calls SEC(".maps");

SEC("raw_tp/sys_enter")
int sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpf_pidns_info current = {};
	u32 number = ctx->args[1];
	u64 *count;

	if (bpf_get_ns_current_pid_tgid(device, inode, &current, sizeof(current)) || current.tgid != process)
		return 0;
	count = bpf_map_lookup_elem(&calls, &number);
	if (count)
		(*count)++;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
