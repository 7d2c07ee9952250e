// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Egress of the device that leads to subscribers: turns a clone that an ingress program sent into the copy that lies
// in the scratch, and learns from the stack's own packets where subscribers are.
//go:build ignore

#include "fanout/clone.h"

SEC("tc") int client_egress(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	if (!c)
		return VERDICT_NEXT;
	if (c->armed)
		return replace_clone(skb, c) ? VERDICT_DROP : VERDICT_NEXT; // still armed, its sender counts it as lost
	learn_neighbor(skb);
	return VERDICT_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
