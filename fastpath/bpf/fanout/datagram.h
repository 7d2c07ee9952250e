// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Copies of a DATAGRAM frame: the object is claimed once, then a copy is made for each subscription that wants it.
#pragma once

#include "copy.h"

// copy_datagram makes and sends the subscriber's copy. *sent is set unless user space is to send the object: what the
// queue of a device has dropped is lost as anywhere on the path.
static __noinline int copy_datagram(struct fan_out *f, const struct subscription *sub, u32 *sent)
{
	struct scratch *c = f->c;

	if (c->frame >= MAX_FRAMES)
		return COPY_NO_PATH;
	const struct frame *fr = &c->frames[c->frame];
	struct claim *cl = &c->claim;
	if (!object_wanted(sub, &c->header))
		return COPY_FILTERED;
	cl->subscriber = sub->subscriber;
	struct path *path;
	struct neighbor *n;
	enum reason why = find_route(cl, &path, &n);
	if (why != COPY_SENT)
		return why;
	if (!affordable(c, fr->len))
		return COPY_BUDGET;
	u32 body = fr->len - c->header.len, at = fr->at + c->header.len;
	u32 header = write_object_header(c, at, path, sub);
	u32 frame_len = 1 + header + body, src = at - header - 1;
	cl->level = level_of(sub, c->header.priority);
	cl->data_len = header + body;
	cl->packet_len = packet_len(path, frame_len);
	if (!header || frame_len > path->datagram_limit || frame_len > MAX_PAYLOAD)
		return COPY_TOO_LARGE;
	why = admit_claim(cl);
	if (why == COPY_SENT)
		why = claim_packet(cl);
	if (why != COPY_SENT)
		return why;
	spend(c, cl->data_len);
	if (seal_packet(c, path, cl, src, frame_len) || write_headers(c, path, n, frame_len + TAG_LEN))
		return COPY_LOST;
	int err = send_clone(f->skb, c, n, &path->udp);
	*sent = err >= 0;
	return err ? COPY_LOST : COPY_SENT;
}

static long datagram_step(u32 i, struct fan_out *f)
{
	u32 sent = 0;

	const struct subscription *sub = subscription_at(f, i);
	if (!sub || i >= MAX_OBJECT_COPIES)
		return 1;
	count_copy(f->c, sub->subscriber, copy_datagram(f, sub, &sent));
	if (sent)
		object_sent(f->object, i);
	return 0;
}

// forward_datagram offers a DATAGRAM frame to the subscribers of its track.
GLOBAL int forward_datagram(struct __sk_buff *skb, u32 webtransport)
{
	struct scratch *c = scratch_get();

	if (!c || c->frame >= MAX_FRAMES)
		return -1;
	const struct frame *fr = &c->frames[c->frame];
	parse_object_datagram(c, webtransport);
	if (!c->header.len || c->header.len > fr->len) {
		count(FRAME_NOT_MEDIA);
		return 0;
	}
	struct track *t = 0;
	struct object_claim *o = claim_object(c, &t);
	if (!o || !t)
		return 0;
	count(FRAME_FORWARDED);
	c->group = c->header.group;
	struct fan_out f = { .skb = skb, .c = c, .part = t, .object = o };
	bpf_loop(max_copies, datagram_step, &f, 0);
	if (t->count > max_copies || t->count > MAX_OBJECT_COPIES)
		count(COPY_BUDGET);
	object_done(o);
	return 0;
}
