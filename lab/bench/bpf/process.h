// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The process that runs.
#pragma once

#include <sluice/types.h>

// The PID namespace of the program that measures, by device and inode. bpf_get_current_pid_tgid would return ids of the
// first PID namespace, which a process in a container does not know.
const volatile u64 device, inode;

// current_process returns the id of the process that runs, or is interrupted; 0: it is in no such namespace.
INLINE u32 current_process(void)
{
	struct bpf_pidns_info current = {};

	return bpf_get_ns_current_pid_tgid(device, inode, &current, sizeof(current)) ? 0 : current.tgid;
}
