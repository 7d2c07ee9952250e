// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// How a copy leaves. A program cannot make a packet, but it can clone the one that it handles: server_ingress sends a
// clone to the subscriber's device, and client_egress there exchanges the clone's contents for the copy that lies in
// OUT.
//
// bpf_clone_redirect runs the egress programs of the device before it returns, on the same CPU, so one word in the
// scratch (armed) is all that both programs need to agree. Its result says that the clone was handed over, not that
// client_egress has seen it: the device can be down, its qdisc can refuse the clone, a program before ours can drop it,
// and somebody can have detached ours. Hence server_ingress looks at armed again. If client_egress has not taken the
// copy, the neighbour is forgotten: user space sends to it until client_egress sees a packet of the stack to it. Else
// the kernel would claim and lose whatever fits into the window. After the call all pointers into the packet are
// invalid, since the clone shares its data.
//
// A clone inherits more than data: the VLAN tag beside it, the state of its checksum, its mark. Only the first two
// matter here, see replace_clone and transport/offload.h.
#pragma once

#include "../shared/scratch.h"
#include "neighbors.h"

#define MIN_HEAD 47 // Ethernet, IPv4, UDP and a QUIC short header without a connection ID
#define MAX_HEAD 95

// send_clone sends the copy to the neighbour by which an endpoint is reached. It returns 0 if that has taken it.
INLINE int send_clone(struct __sk_buff *skb, struct scratch *c, const struct neighbor *n, const void *endpoint)
{
	c->armed = 1;
	int err = bpf_clone_redirect(skb, n->ifindex, 0);
	if (!c->armed)
		return err;
	c->armed = 0;
	bpf_map_delete_elem(&neighbors, endpoint);
	return -1;
}

// replace_clone gives the packet the contents of OUT. If these have no tail, the packet keeps what follows the head.
//
// The bounds of head and tail are for the verifier. Without the barriers the compiler makes one comparison of two, of a
// difference, from which the verifier of Linux 6.12 does not learn the bounds of the length itself.
//
// bpf_skb_change_tail makes the clone's data its own. It refuses lengths that cut off the checksum that the device is
// to complete, which lies in the headers here. bpf_skb_store_bytes without BPF_F_RECOMPUTE_CSUM leaves the checksum as
// it is: the whole one is in the copy, or the device completes it, as it would have done for the clone.
INLINE int replace_clone(struct __sk_buff *skb, struct scratch *c)
{
	u32 head = c->head, tail = c->tail;

	if (head < MIN_HEAD)
		return -1;
	barrier_var(head);
	barrier_var(tail);
	if (head > MAX_HEAD || tail > MAX_PAYLOAD + TAG_LEN)
		return -1;
	if (skb->vlan_present && bpf_skb_vlan_pop(skb)) // of the publisher's network; the subscriber's is in the header
		return -1;
	if (tail && bpf_skb_change_tail(skb, head + tail, 0))
		return -1;
	if (bpf_skb_store_bytes(skb, 0, c->buf + OUT, head, 0))
		return -1;
	barrier_var(tail);
	if (tail && bpf_skb_store_bytes(skb, head, c->buf + OUT + PAYLOAD_AT, tail, 0))
		return -1;
	c->armed = 0;
	return 0;
}
