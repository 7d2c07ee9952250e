// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The policy layer: may this copy go now?
//
// What it promises to the fan-out: one function, admit, decides, and looks only at the small struct that it is given.
// It has no side effects, so the fan-out can ask before anything is taken. A copy that is not admitted is declined with
// the reason that admit returns, and the media sender sends its bytes when they may go.
//
// The rules here are the same as user space's own: its congestion controller's window, its drop policy's
// priority threshold, and the path's MTU. Flow control credit is no policy: it is taken with the claim
// (shared/claim.h).
#pragma once

#include "../shared/state.h"

struct admission {
	const struct conn_state *conn; // the subscriber's
	u32 level; // the stream's or the object's; lower levels go first
	u32 packet_len; // the QUIC packet's; 0: not known yet, because a stream is about to be opened
};

// admit returns COPY_SENT if a copy may go.
INLINE enum reason admit(const struct admission *a)
{
	if (a->level > a->conn->threshold)
		return COPY_PRIORITY;
	if (!a->packet_len)
		return COPY_SENT;
	if (a->packet_len > a->conn->mtu)
		return COPY_TOO_LARGE;
	if (SHARED(a->conn->in_flight) + a->packet_len > a->conn->window)
		return COPY_WINDOW;
	return COPY_SENT;
}
