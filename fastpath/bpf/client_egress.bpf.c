// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Egress of the device that subscribers are reached by: turns a clone that server_ingress sent into the packet that it
// left, sealed, in the scratch. bpf_clone_redirect runs this program before it returns, on the same CPU.
#include "common.h"

#define MIN_HEAD 47 // Ethernet, IPv4, UDP and a short header without a connection ID
#define MAX_HEAD 95

SEC("tc") int client_egress(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	if (!c || !c->armed)
		return VERDICT_NEXT;
	u32 head = c->head, tail = c->tail;
	if (head < MIN_HEAD || head > MAX_HEAD || tail <= TAG_LEN || tail > MAX_PAYLOAD + TAG_LEN)
		return VERDICT_DROP;
	if (bpf_skb_change_tail(skb, head + tail, 0) || bpf_skb_store_bytes(skb, 0, c->buf + OUT, head, 0) ||
	    bpf_skb_store_bytes(skb, head, c->buf + OUT + PAYLOAD_AT, tail, 0))
		return VERDICT_DROP; // armed stays, so that server_ingress counts it
	c->armed = 0;
	return VERDICT_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
