// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Counts the system calls of one process, by number.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define NUMBERS 1024 // more than any architecture has

// The process, as it is called in the PID namespace of these device and inode numbers.
const volatile __u64 device, inode;
const volatile __u32 process;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUMBERS);
	__type(key, __u32);
	__type(value, __u64);
} calls SEC(".maps");

SEC("raw_tp/sys_enter")
int sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpf_pidns_info current = {};
	__u32 number = ctx->args[1];
	__u64 *count;

	if (bpf_get_ns_current_pid_tgid(device, inode, &current, sizeof(current)) || current.tgid != process)
		return 0;
	count = bpf_map_lookup_elem(&calls, &number);
	if (count)
		(*count)++;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
