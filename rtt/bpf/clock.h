// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Time is the kernel's monotonic clock, or the time of the packet when a capture is replayed or a test sets it.
#pragma once

#include "settings.h"

struct replayed {
	u64 now; // ns
	u32 length; // of the packet on the wire, with its link header
	u32 captured; // bytes of it that the capture holds
};

volatile struct replayed replay;

INLINE u64 clock_now(void)
{
	return config.replay ? replay.now : bpf_ktime_get_ns();
}

// clock_coarse is the same clock at the last timer tick: at most a few milliseconds late, at a tenth of the cost.
INLINE u64 clock_coarse(void)
{
	return config.replay ? replay.now : bpf_ktime_get_coarse_ns();
}
