// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What the device and the stack have agreed about a packet's checksum. __sk_buff does not show that state, so it is
// read from the kernel's own struct, whose fields CO-RE finds.
//
// Clones inherit the state: if the device is to complete the checksum, it sums everything from csum_start to the end of
// whatever the clone has become, and stores the result at csum_offset. A copy must have its UDP header at that place
// (fanout/clone.h), and the pseudo header's sum in its checksum field, or leave with a wrong checksum.
#pragma once

#include <sluice/types.h>
#include <bpf/bpf_core_read.h>

#define UDP_CHECKSUM_AT 6 // in its header

// Values of ip_summed (linux/skbuff.h).
enum checksum_state {
	CHECKSUM_NONE, // nobody has looked at it
	CHECKSUM_UNNECESSARY, // the device has verified it
	CHECKSUM_COMPLETE, // the device has summed the packet, and the stack is to compare
	CHECKSUM_PARTIAL, // the packet comes from this machine (veth, virtio, tun): the device is still to fill it in
};

struct sk_buff {
	u8 ip_summed : 2;
	u16 csum_start, csum_offset, mac_header;
} __attribute__((preserve_access_index));

void *bpf_cast_to_kern_ctx(void *obj) __ksym;

// checksum_state returns the state of a packet's checksum. If the device is to complete UDP's, *start becomes where it
// begins to sum, an offset in the frame; else 0.
INLINE enum checksum_state checksum_state(struct __sk_buff *ctx, u32 *start)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	enum checksum_state state = BPF_CORE_READ_BITFIELD(skb, ip_summed);
	bool of_udp = state == CHECKSUM_PARTIAL && skb->csum_offset == UDP_CHECKSUM_AT;

	*start = of_udp ? skb->csum_start - skb->mac_header : 0;
	return state;
}
