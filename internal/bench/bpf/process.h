// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The process that is measured.
#pragma once

#include <sluice/types.h>

// The process, by its id in the PID namespace that these device and inode numbers name. bpf_get_current_pid_tgid would
// return its id in the first PID namespace, which a process in a container does not know.
const volatile u64 device, inode;
const volatile u32 process;

// is_current reports whether the process runs, or is interrupted.
INLINE bool is_current(void)
{
	struct bpf_pidns_info current = {};

	return !bpf_get_ns_current_pid_tgid(device, inode, &current, sizeof(current)) && current.tgid == process;
}
