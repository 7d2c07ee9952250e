// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Entry for tests of the frame walk: userspace writes a plaintext into the scratch, and reads the frames back.
#include <linux/pkt_cls.h>
#include "frames.h"

SEC("tc") int test_walk(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	return c ? walk_frames(c, skb->mark) : -1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
