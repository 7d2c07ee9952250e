// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The fan-out of an OBJECT_DATAGRAM. Datagrams have no order, so there is no cursor: whoever puts an object into the map
// objects sends it, and everybody else leaves it alone. Only user space, which sees the packet next, asks there whom the
// kernel has left out. See docs/fastpath.md.
#pragma once

#include "fanout.h"

// write_object_header writes what each hop writes anew, in the form that user space writes (with priority, and with Object
// ID unless that is 0), so that it ends at buf[end]; before it the DATAGRAM frame's type. It returns the length without
// that type, or 0.
__noinline u32 write_object_header(struct scratch *c, u32 end, u32 index, const struct path *path, const struct subscription *sub)
{
	if (!c || !path || !sub || index >= MAX_FRAMES || end < IN + PAYLOAD_AT)
		return 0;
	barrier_var(end); // else both bounds become one comparison that the verifier does not follow
	if (end > IN + PAYLOAD_AT + MAX_PAYLOAD)
		return 0;
	const struct frame *fr = &c->frames[index];
	u8 *p = c->buf + end;
	u32 len = 1, zero = fr->object ? 0 : DATAGRAM_ZERO_OBJECT_ID;

	p[-1] = fr->priority;
	if (!zero)
		len += write_vi64_before(p - (len & 63), fr->object);
	len += write_vi64_before(p - (len & 63), fr->group);
	len += write_vi64_before(p - (len & 63), sub->alias);
	len++;
	p[-(s64)(len & 63)] = (fr->header_type & (DATAGRAM_PROPERTIES | DATAGRAM_END_OF_GROUP)) | zero;
	if (path->datagram_prefix_len) {
		*((u64 *)(p - (len & 63)) - 1) = *(const u64 *)path->datagram_prefix;
		len += path->datagram_prefix_len & 15;
	}
	p[-1 - (s64)(len & 63)] = FRAME_DATAGRAM;
	return len;
}

INLINE int wants_object(const struct subscription *sub, const struct frame *fr)
{
	if (!sub->forward || fr->group > sub->end_group)
		return 0;
	return fr->group > sub->start_group || (fr->group == sub->start_group && fr->object >= sub->start_object);
}

// send_object makes the subscriber's packet and sends it. *claimed is set when nobody else may send the object to it.
static __noinline int send_object(struct fan_out *f, const struct subscription *sub, u32 *claimed)
{
	struct scratch *c = f->c;

	if (c->frame >= MAX_FRAMES)
		return COPY_NO_PATH;
	const struct frame *fr = &c->frames[c->frame];
	struct claim *cl = &c->claim;
	if (!wants_object(sub, fr))
		return COPY_FILTERED;
	cl->subscriber = sub->subscriber;
	struct path *path;
	struct neighbor *n;
	enum reason why = find_route(c, cl, &path, &n);
	if (why != COPY_SENT)
		return why;
	if (!affordable(c, fr->len))
		return COPY_BUDGET;
	u32 body = fr->len - fr->header_len, at = fr->at + fr->header_len;
	u32 header = write_object_header(c, at, c->frame, path, sub);
	u32 frame_len = 1 + header + body, src = at - header - 1;
	cl->data_len = header + body;
	cl->packet_len = 1 + path->dcid_len + PN_LEN + frame_len + TAG_LEN;
	if (!header || frame_len > path->datagram_limit || frame_len > MAX_PAYLOAD)
		return COPY_TOO_LARGE;
	why = claim_packet(cl, sub->priority << 8 | fr->priority);
	if (why != COPY_SENT)
		return why;
	*claimed = 1;
	c->work += COPY_WORK + cl->data_len;
	if (seal_packet(c, path, cl, src, frame_len) || write_headers(c, path, n, frame_len + TAG_LEN))
		return COPY_LOST;
	return send_clone(f, n);
}

static long object_step(u32 i, struct fan_out *f)
{
	u32 claimed = 0;

	if (i >= f->track->count || i >= MAX_TRACK_SUBSCRIPTIONS)
		return 1;
	const struct subscription *sub = &f->track->subscriptions[i];
	count_copy(sub->subscriber, send_object(f, sub, &claimed));
	if (claimed)
		__sync_fetch_and_or(&f->object->state, 1ULL << i);
	return 0;
}

// claim_object puts an object into the map and returns its element, or 0 after having counted why not. *track is that of the
// subscriptions: it is looked up after the object was claimed, because claims are forgotten after first_group and
// first_object were raised.
static __noinline struct object_claim *claim_object(const struct frame *fr, u32 upstream, struct track **track)
{
	struct object_key key = { .group = fr->group, .object = fr->object };
	struct alias_key alias = { .alias = fr->alias, .upstream = upstream };
	struct object_claim new = { .claimed = bpf_ktime_get_ns() };
	u32 *index = bpf_map_lookup_elem(&aliases, &alias);

	if (!index || !bpf_map_lookup_elem(&tracks, index)) {
		count(FRAME_NO_TRACK);
		return 0;
	}
	key.track = *index;
	long err = bpf_map_update_elem(&objects, &key, &new, BPF_NOEXIST);
	struct object_claim *o = bpf_map_lookup_elem(&objects, &key);
	if (err || !o) {
		count(o ? FRAME_CLAIMED : FRAME_NO_SLOT);
		return 0;
	}
	*track = bpf_map_lookup_elem(&tracks, index);
	if (*track && (fr->group > (*track)->first_group || (fr->group == (*track)->first_group && fr->object >= (*track)->first_object)))
		return o;
	count(*track ? FRAME_FORGOTTEN : FRAME_NO_TRACK);
	o->state = OBJECT_DONE;
	return 0;
}

// forward_object offers a DATAGRAM frame to the subscribers of its track.
__noinline int forward_object(struct __sk_buff *skb, u32 index, u32 upstream)
{
	struct scratch *c = scratch_get();

	if (!c || index >= MAX_FRAMES)
		return -1;
	struct frame *fr = &c->frames[index];
	if (!fr->header_len || fr->header_len > fr->len) {
		count(FRAME_NOT_MEDIA);
		return 0;
	}
	struct track *t = 0;
	struct object_claim *o = claim_object(fr, upstream, &t);
	if (!o)
		return 0;
	count(FRAME_FORWARDED);
	if (fr->header_type & DATAGRAM_DEFAULT_PRIORITY)
		fr->priority = t->default_priority;
	o->state = (u64)t->version << OBJECT_VERSION_SHIFT;
	struct fan_out f = { .skb = skb, .c = c, .track = t, .object = o };
	c->frame = index;
	bpf_loop(max_copies, object_step, &f, 0);
	if (t->count > max_copies)
		count(COPY_BUDGET);
	__sync_fetch_and_or(&o->state, OBJECT_DONE);
	return 0;
}
