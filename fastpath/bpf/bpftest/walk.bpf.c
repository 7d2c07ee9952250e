// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Entries for tests of the frame walk and of the media headers: user space writes a plaintext into the scratch, and
// reads the frames back, or the header of the frame that the scratch names.
//go:build ignore

#include "../application/moqt.h"

SEC("tc") int test_walk(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	return c ? walk_frames(c) : -1;
}

SEC("tc") int test_subgroup_header(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	if (!c)
		return -1;
	walk_frames(c);
	return c->frame < c->frame_count ? parse_subgroup_header(c) : -1;
}

SEC("tc") int test_object_datagram(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	if (!c)
		return -1;
	walk_frames(c);
	return c->frame < c->frame_count ? parse_object_datagram(c, skb->mark) : -1;
}

GO_TYPE(enum, walk_result);

char _license[] SEC("license") = "Dual BSD/GPL";
