// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The fan-out layer: one frame of a publisher becomes a copy for each subscriber.
//
// What it promises to the entry programs: forward_frame offers a frame of the opened packet to all subscriptions of its
// track, within the budget, and returns. Each copy is sent or declined, and counted, at once; nothing is queued. A
// declined copy has changed nothing, except that a stream may stay open, which user space then continues. The next copy
// is tried all the same.
//
// The way of a copy, and the layer that decides:
//
//	route      where does it go?                          route.h, neighbors.h
//	budget     may the packet cause one more?             budget.h
//	stream     is one open, or is it to be opened?        stream.h; the application knows whether it is wanted
//	policy     may the copy go now?                       policy/policy.h
//	claim      take packet number, credit and bytes       shared/claim.h
//	rewrite    which bytes go in front of the body?       the application
//	seal       the QUIC packet                            the transport
//	send       Ethernet, IP and UDP headers; the clone    headers.h, clone.h
//	count      for the relay and for the connection       copy.h
#pragma once

#include "datagram.h"
#include "stream.h"

// forward_frame forwards the frame with that index, which came on a connection.
INLINE void forward_frame(struct __sk_buff *skb, struct scratch *c, u32 index, const struct publisher *p)
{
	c->frame = index;
	if (c->frames[index].type >= FRAME_DATAGRAM)
		forward_datagram(skb, p->webtransport);
	else
		forward_stream(skb);
}
