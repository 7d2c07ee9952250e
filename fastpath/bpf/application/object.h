// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Objects that come in datagrams: the claim of an object, which subscriptions want it, and the header that each hop
// writes.
//
// Datagrams have no order, so there is no cursor. Only the sender that puts an object into the map objects sends it.
// User space, which sees the packet next, looks there to learn which subscribers the kernel has left out. See
// docs/fastpath.md.
#pragma once

#include "../shared/state.h"
#include "moqt.h"

// object_forgotten reports whether the claim of an object may have been made and forgotten.
INLINE bool object_forgotten(const struct track *t, const struct media_header *h)
{
	return h->group < t->first_group || (h->group == t->first_group && h->object < t->first_object);
}

// claim_object puts the object of the frame into the map and returns its element, or counts why not and returns 0.
// *track becomes the track. It is looked up after the object was claimed: user space raises first_group and
// first_object before it forgets claims, so a program that finds no claim because it was forgotten finds the raised
// location.
static __noinline struct object_claim *claim_object(struct scratch *c, struct track **track)
{
	struct media_header *h = &c->header;
	struct object_key key = { .group = h->group, .object = h->object };
	struct alias_key alias = { .alias = h->alias, .publisher = c->publisher };
	struct object_claim new = { .claimed = bpf_ktime_get_ns(), .publisher = c->publisher };
	u32 *found = bpf_map_lookup_elem(&aliases, &alias);
	key.track = found ? SHARED(*found) : 0;
	struct track *t = found ? find_track(key.track) : 0;

	if (!t || !has_alias(t, &alias)) {
		count(FRAME_NO_TRACK);
		return 0;
	}
	if (!may_hold(c->publisher, SHARE_OBJECTS)) {
		count(FRAME_SHARE);
		return 0;
	}
	long err = bpf_map_update_elem(&objects, &key, &new, BPF_NOEXIST);
	struct object_claim *o = bpf_map_lookup_elem(&objects, &key);
	if (err || !o) {
		count(o ? FRAME_CLAIMED : FRAME_NO_SLOT);
		return 0;
	}
	hold(c->publisher, SHARE_OBJECTS, 1);
	c->track = key.track;
	c->list_version = current_version(track_versions_at(c->track));
	t = *track = find_subscriptions(c->track, c->list_version, 0);
	bool known = t && has_alias(t, &alias);
	if (!known || object_forgotten(t, h)) {
		count(known ? FRAME_FORGOTTEN : FRAME_NO_TRACK);
		o->state = OBJECT_DONE;
		return 0;
	}
	if (h->type & DATAGRAM_DEFAULT_PRIORITY)
		h->priority = t->default_priority;
	o->state = (u64)t->version << VERSION_SHIFT;
	return o;
}

// object_sent notes that the kernel alone sends the object to the subscription at position i.
INLINE void object_sent(struct object_claim *o, u32 i)
{
	__sync_fetch_and_or(&o->state, 1ULL << i);
}

// object_done notes that the kernel sends the object to no more subscriptions: user space waits for that.
INLINE void object_done(struct object_claim *o)
{
	__sync_fetch_and_or(&o->state, OBJECT_DONE);
}

INLINE bool object_wanted(const struct subscription *sub, const struct media_header *h)
{
	if (!sub->forward || h->group > sub->end_group)
		return false;
	return h->group > sub->start_group || (h->group == sub->start_group && h->object >= sub->start_object);
}

// write_object_header writes the header that ends at buf[end], in the form that user space writes: with priority, and
// with Object ID unless that is 0. In front of it goes the DATAGRAM frame's type. It returns the length without that
// type, or 0.
GLOBAL u32 write_object_header(struct scratch *c, u32 end, const struct path *path, const struct subscription *sub)
{
	if (!c || !path || !sub || end < IN + PAYLOAD_AT)
		return 0;
	barrier_var(end); // as in write_prefix
	if (end > IN + PAYLOAD_AT + MAX_PAYLOAD)
		return 0;
	const struct media_header *h = &c->header;
	u8 *p = c->buf + end;
	u32 len = 1, zero = h->object ? 0 : DATAGRAM_ZERO_OBJECT_ID;

	p[-1] = h->priority;
	if (!zero)
		len += write_vi64_before(p - (len & 63), h->object);
	len += write_vi64_before(p - (len & 63), h->group);
	len += write_vi64_before(p - (len & 63), sub->alias);
	len++;
	p[-(s64)(len & 63)] = (h->type & (DATAGRAM_PROPERTIES | DATAGRAM_END_OF_GROUP)) | zero;
	if (path->datagram_prefix_len) {
		*((u64 *)(p - (len & 63)) - 1) = *(const u64 *)path->datagram_prefix;
		len += path->datagram_prefix_len & 15;
	}
	p[-1 - (s64)(len & 63)] = FRAME_DATAGRAM;
	return len;
}
