// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The fan-out of one STREAM frame: for each subscription of its track, claim, build and send a copy.
#pragma once

#include "fanout.h"

// wants says if a subscription's range begins no later than a subgroup's first object. Where the range begins within the
// group user space opens the stream, because it knows the objects.
INLINE int wants(const struct subscription *sub, const struct subgroup *g)
{
	if (!sub->forward || g->group > sub->end_group)
		return 0;
	return g->group > sub->start_group || (g->group == sub->start_group && !sub->start_object);
}

INLINE u32 prefix_len(const struct subgroup *g, const struct path *path, u64 alias)
{
	u32 subgroup_id = g->header_type & SUBGROUP_ID_PRESENT ? vi64_len(g->subgroup) : 0;

	return path->stream_prefix_len + 1 + vi64_len(alias) + vi64_len(g->group) + subgroup_id + 1;
}

// take_stream takes the id of a unidirectional stream.
INLINE int take_stream(struct subscriber_state *s, u64 *id)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		u64 next = *(volatile u64 *)&s->next_uni;
		if (next / 4 >= *(volatile u64 *)&s->max_uni)
			return 0;
		if (__sync_bool_compare_and_swap(&s->next_uni, next, next + 4)) {
			*id = next;
			return 1;
		}
	}
	return 0;
}

// open_stream gives the subscriber a stream for the subgroup. The slot is published in downstreams before the stream id is
// taken, so that user space cannot open a second one; whoever publishes first opens.
__noinline int open_stream(const struct subgroup *g, const struct subscription *sub, const struct downstream_key *key, u32 *slot)
{
	if (!g || !sub || !key || !slot)
		return COPY_NOT_OPEN;
	struct subscriber_state *s = bpf_map_lookup_elem(&subscribers, &sub->subscriber);
	struct path *path = bpf_map_lookup_elem(&paths, &sub->subscriber);
	u32 level = sub->priority << 8 | g->priority;
	if (!s || !path)
		return COPY_NO_PATH;
	if (level > s->threshold)
		return COPY_PRIORITY;
	u32 free;
	if (bpf_map_pop_elem(&free_streams, &free))
		return COPY_NOT_OPEN;
	struct stream_state *st = bpf_map_lookup_elem(&streams, &free);
	if (!st)
		return COPY_NOT_OPEN;
	st->phase = STREAM_OPENING;
	st->next = g->header_len;
	st->delta = (u64)prefix_len(g, path, sub->alias) - g->header_len;
	st->limit = path->stream_limit;
	st->level = level;
	if (bpf_map_update_elem(&downstreams, key, &free, BPF_NOEXIST)) {
		bpf_map_push_elem(&free_streams, &free, 0);
		return COPY_NOT_OPEN;
	}
	if (!take_stream(s, &st->id)) {
		st->id = NO_STREAM;
		*(volatile u32 *)&st->phase = STREAM_ABANDONED;
		return COPY_STREAM_LIMIT;
	}
	*slot = free;
	return COPY_SENT;
}

// find_stream sets the claim's slot to the subscriber's stream, which it opens if need be.
INLINE enum reason find_stream(const struct fan_out *f, const struct subscription *sub, struct claim *cl, u64 stream_id, int first)
{
	struct downstream_key *key = (struct downstream_key *)f->c->stream_key;
	key->stream_id = stream_id;
	key->upstream = f->c->upstream;
	key->subscriber = sub->subscriber;
	u32 *slot = bpf_map_lookup_elem(&downstreams, key);

	cl->opened = 0;
	if (slot) {
		cl->slot = *slot;
		return COPY_SENT;
	}
	if (!first || !wants(sub, f->subgroup))
		return first ? COPY_FILTERED : COPY_NOT_OPEN;
	cl->opened = 1;
	return open_stream(f->subgroup, sub, key, &cl->slot);
}

// prepare fills the claim for the body of a frame: all but the header that each hop writes anew.
INLINE void prepare(struct claim *cl, const struct frame *fr, const struct subgroup *g, const struct stream_state *st,
		    const struct path *path, const struct subscription *sub)
{
	u32 header = fr->offset ? 0 : fr->header_len;
	u32 prefix = cl->opened ? prefix_len(g, path, sub->alias) : 0;

	cl->from = fr->offset + header;
	cl->to = fr->offset + fr->len;
	cl->fin = fr->fin;
	cl->data_len = prefix + fr->len - header;
	cl->packet_len = 1 + path->dcid_len + PN_LEN + frame_header_len(st->id, cl->to + st->delta - cl->data_len) + cl->data_len + TAG_LEN;
}

// build_copy makes the packet of a claim in OUT. The frame header and the prefix are written in front of the body, over
// bytes that nobody needs any more. Its failures are bugs, so they count as losses.
INLINE int build_copy(struct fan_out *f, const struct subscription *sub, const struct stream_state *st, const struct path *path,
		      const struct neighbor *n)
{
	struct scratch *c = f->c;
	struct claim *cl = &c->claim;
	if (c->frame >= MAX_FRAMES)
		return -1;
	const struct frame *fr = &c->frames[c->frame];
	u32 body = cl->to - cl->from, prefix = cl->data_len - body, at = fr->at + fr->len - body;
	u64 offset = cl->to + st->delta - cl->data_len;

	if (prefix && write_prefix(c, at, f->subgroup, path, sub->alias) != prefix)
		return -1;
	u32 frame_len = frame_header_len(st->id, offset) + cl->data_len, src = at + body - frame_len;
	if (frame_len > MAX_PAYLOAD)
		return -1;
	barrier_var(src);
	if (src > IN + PAYLOAD_AT + MAX_PAYLOAD)
		return -1;
	write_frame_header(c->buf + src, st->id, offset, cl->fin);
	return seal_packet(c, path, cl, src, frame_len) || write_headers(c, path, n, frame_len + TAG_LEN);
}

// send_copy makes the subscriber's packet and sends a clone that client_egress turns into it.
INLINE enum reason send_copy(struct fan_out *f, const struct subscription *sub)
{
	struct scratch *c = f->c;

	if (c->frame >= MAX_FRAMES)
		return COPY_NO_PATH;
	struct frame *fr = &c->frames[c->frame];
	struct claim *cl = &c->claim;
	cl->subscriber = sub->subscriber;
	struct path *path;
	struct neighbor *n;
	enum reason why = find_route(c, cl, &path, &n);
	if (why != COPY_SENT)
		return why;
	if (!affordable(c, fr->len))
		return COPY_BUDGET;
	why = find_stream(f, sub, cl, fr->stream_id, !fr->offset && fr->header_len);
	if (why != COPY_SENT)
		return why;
	struct stream_state *st = bpf_map_lookup_elem(&streams, &cl->slot);
	if (!st || (!cl->opened && *(volatile u32 *)&st->phase != STREAM_OPEN))
		return COPY_NOT_OPEN;
	prepare(cl, fr, f->subgroup, st, path, sub);
	why = claim_bytes(cl);
	if (why != COPY_SENT) {
		if (cl->opened)
			*(volatile u32 *)&st->phase = STREAM_ABANDONED; // user space, which sees the packet too, goes on with it
		return why;
	}
	c->work += COPY_WORK + cl->data_len;
	int err = build_copy(f, sub, st, path, n);
	if (cl->opened)
		*(volatile u32 *)&st->phase = STREAM_OPEN; // even if it failed: the bytes are claimed, loss recovery sends them
	return err ? COPY_LOST : send_clone(f, n);
}

static long copy_step(u32 i, struct fan_out *f)
{
	if (i >= f->track->count || i >= MAX_TRACK_SUBSCRIPTIONS)
		return 1;
	const struct subscription *sub = &f->track->subscriptions[i];
	count_copy(sub->subscriber, send_copy(f, sub));
	return 0;
}

// find_subgroup looks up the frame's upstream stream, and registers it when the frame carries its header.
static __noinline struct subgroup *find_subgroup(struct frame *f, u32 upstream)
{
	struct stream_key key = { .stream_id = f->stream_id, .upstream = upstream };
	struct subgroup *g = bpf_map_lookup_elem(&subgroups, &key);

	if (g)
		return g;
	if (f->offset || !f->header_len) {
		count(FRAME_NOT_MEDIA);
		return 0;
	}
	struct alias_key alias = { .alias = f->alias, .upstream = upstream };
	u32 *index = bpf_map_lookup_elem(&aliases, &alias);
	struct track *track = index ? bpf_map_lookup_elem(&tracks, index) : 0;
	struct upstream *up = bpf_map_lookup_elem(&upstreams, &upstream);
	if (!track || !up) {
		count(FRAME_NO_TRACK);
		return 0;
	}
	if (f->stream_id < up->first_stream) {
		count(FRAME_ENDED);
		return 0;
	}
	struct subgroup new = {
		.group = f->group, .subgroup = f->subgroup, .track = *index, .header_len = f->header_len,
		.header_type = (f->header_type & SUBGROUP_FLAGS) | (f->subgroup ? SUBGROUP_ID_PRESENT : 0),
		.priority = f->header_type & DEFAULT_PRIORITY_SUBGROUP ? track->default_priority : f->priority,
	};
	if (bpf_map_update_elem(&subgroups, &key, &new, BPF_NOEXIST)) {
		count(FRAME_NO_SLOT);
		return 0;
	}
	return bpf_map_lookup_elem(&subgroups, &key);
}

// forward_stream offers a STREAM frame to the subscribers of its track.
__noinline int forward_stream(struct __sk_buff *skb, u32 index, u32 upstream)
{
	struct scratch *c = scratch_get();

	if (!c || index >= MAX_FRAMES)
		return -1;
	struct frame *fr = &c->frames[index];
	struct subgroup *g = find_subgroup(fr, upstream);
	if (!g)
		return 0;
	if (g->ended) {
		count(FRAME_ENDED);
		return 0;
	}
	struct track *t = bpf_map_lookup_elem(&tracks, &g->track);
	if (!t) {
		count(FRAME_NO_TRACK);
		return 0;
	}
	count(FRAME_FORWARDED);
	struct fan_out f = { .skb = skb, .c = c, .track = t, .subgroup = g };
	c->frame = index;
	c->upstream = upstream;
	bpf_loop(max_copies, copy_step, &f, 0);
	if (t->count > max_copies)
		count(COPY_BUDGET);
	return 0;
}
