// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Egress of the device that subscribers are reached by: turns a clone that server_ingress sent into the packet that it
// left, sealed, in the scratch. bpf_clone_redirect runs this program before it returns, on the same CPU. From the stack's
// own packets it learns where subscribers are.
#include "neighbors.h"

#define MIN_HEAD 47 // Ethernet, IPv4, UDP and a short header without a connection ID
#define MAX_HEAD 95

// replace gives the packet the contents of OUT. The checksum of the whole is in it, or left to the device, as it was.
INLINE int replace(struct __sk_buff *skb, struct scratch *c)
{
	u32 head = c->head, tail = c->tail;

	if (head < MIN_HEAD || head > MAX_HEAD || tail <= TAG_LEN || tail > MAX_PAYLOAD + TAG_LEN)
		return -1;
	if (skb->vlan_present && bpf_skb_vlan_pop(skb)) // of the publisher's network; the subscriber's is in the header
		return -1;
	return bpf_skb_change_tail(skb, head + tail, 0) || bpf_skb_store_bytes(skb, 0, c->buf + OUT, head, 0) ||
	       bpf_skb_store_bytes(skb, head, c->buf + OUT + PAYLOAD_AT, tail, 0);
}

SEC("tc") int client_egress(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	if (!c)
		return VERDICT_NEXT;
	if (!c->armed) {
		learn_neighbor(skb);
		return VERDICT_NEXT;
	}
	if (replace(skb, c))
		return VERDICT_DROP; // armed stays, so that server_ingress counts it
	c->armed = 0;
	return VERDICT_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
