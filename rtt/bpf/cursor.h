// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// A cursor walks the headers of a packet. Bytes are read from the linear part, or by a helper if they are in page
// fragments. No packet is ever changed.
#pragma once

#include "clock.h"

// Headers that begin beyond this are not followed. The verifier needs some bound; this one holds all that
// IPV6_EXTENSIONS_MAX ordinary extension headers take.
#define CURSOR_MAX 2047

struct cursor {
	void *ctx;
	void *data;
	void *end; // of the linear part
	u32 at; // where the next header begins
	u32 length; // of the packet
	bool xdp;
	bool batched; // the bytes of other packets follow
};

// in_batch reports whether a batch of a replay is measured.
INLINE bool in_batch(void)
{
	return config.replay && replay.captured;
}

INLINE void cursor_of_skb(struct cursor *c, struct __sk_buff *skb)
{
	*c = (struct cursor){ .ctx = skb, .data = (void *)(long)skb->data, .end = (void *)(long)skb->data_end };
	c->length = config.replay ? replay.length : skb->len;
}

INLINE void cursor_of_xdp(struct cursor *c, struct xdp_md *xdp)
{
	*c = (struct cursor){ .ctx = xdp, .data = (void *)(long)xdp->data, .end = (void *)(long)xdp->data_end };
	c->length = config.replay ? replay.length : bpf_xdp_get_buff_len(xdp);
	c->xdp = true;
	c->batched = in_batch();
}

// cursor_holds reports whether n bytes from offset at are the packet's.
INLINE bool cursor_holds(const struct cursor *c, u32 at, u32 n)
{
	return !c->batched || at + n <= replay.captured;
}

// cursor_left returns how many of n bytes from offset at on are the packet's.
INLINE u32 cursor_left(const struct cursor *c, u32 at, u32 n)
{
	if (cursor_holds(c, at, n))
		return n;
	return at < replay.captured ? replay.captured - at : 0;
}

// cursor_copy copies n bytes. n need not be constant, but the verifier must know its bounds.
INLINE bool cursor_copy(const struct cursor *c, u32 at, void *to, u32 n)
{
	if (!cursor_holds(c, at, n))
		return false;
	return (c->xdp ? bpf_xdp_load_bytes(c->ctx, at, to, n) : bpf_skb_load_bytes(c->ctx, at, to, n)) == 0;
}

// cursor_read copies n bytes from offset at. n is constant.
INLINE bool cursor_read(const struct cursor *c, u32 at, void *to, const u32 n)
{
	void *from;

	if (at > CURSOR_MAX || !cursor_holds(c, at, n))
		return false;
	from = c->data + at;
	if (from + n > c->end)
		return cursor_copy(c, at, to, n);
	__builtin_memcpy(to, from, n);
	return true;
}

// cursor_next reads the header at the cursor and steps over it.
INLINE bool cursor_next(struct cursor *c, void *to, const u32 n)
{
	if (!cursor_read(c, c->at, to, n))
		return false;
	c->at += n;
	return true;
}
