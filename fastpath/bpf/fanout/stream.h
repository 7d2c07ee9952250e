// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Copies of a STREAM frame: for each subscription, find or open its stream, claim the bytes, and send them.
#pragma once

#include "copy.h"

// may_open describes the first packet of a stream, and reports whether it may go: whether policy, window, credit and
// ledger have room for it. The stream gets its id only then: the peer allows few, and streams that wait in user space
// get theirs by priority.
INLINE enum reason may_open(const struct subgroup *g, const struct subscription *sub, const struct path *path,
			    struct claim *cl)
{
	const struct conn_state *s = connections_at(cl->subscriber);
	if (!s)
		return COPY_NO_PATH;
	cl->level = level_of(sub, g->priority);
	cl->prefix_len = prefix_len(g, path, sub->alias);
	cl->data_len += cl->prefix_len;
	cl->packet_len = packet_len(path, stream_header_len(SHARED(s->next_uni), 0) + cl->data_len);
	enum reason why = admit_claim(cl);
	if (why != COPY_SENT)
		return why;
	if (cl->data_len > path->stream_limit)
		return COPY_STREAM_CREDIT;
	if (SHARED(s->data_sent) + cl->data_len > SHARED(s->data_limit))
		return COPY_CONNECTION_CREDIT;
	return has_room(s) ? COPY_SENT : COPY_LEDGER_FULL;
}

// open_stream gives the subscriber a stream for the subgroup. The slot is published in downstreams before the stream id
// is taken, so that user space cannot open a second stream: the side that publishes first opens it. The check of the
// share is not atomic: programs on other CPUs can exceed it by one stream each.
GLOBAL int open_stream(const struct subgroup *g, const struct subscription *sub, const struct path *path,
		       const struct downstream_key *key, struct claim *cl)
{
	if (!g || !sub || !path || !key || !cl)
		return COPY_NOT_OPEN;
	struct conn_state *s = connections_at(sub->subscriber);
	if (!s)
		return COPY_NO_PATH;
	if (SHARED(s->slots) >= STREAM_SHARE)
		return COPY_STREAM_SHARE;
	u32 slot;
	if (bpf_map_pop_elem(&free_streams, &slot))
		return COPY_NO_SLOT;
	struct stream_state *st = streams_at(slot);
	if (!st)
		return COPY_NOT_OPEN;
	st->phase = STREAM_OPENING;
	st->next = g->header_len;
	st->delta = (u64)cl->prefix_len - g->header_len;
	st->limit = path->stream_limit;
	st->level = cl->level;
	st->alias = sub->alias;
	if (bpf_map_update_elem(&downstreams, key, &slot, BPF_NOEXIST)) {
		bpf_map_push_elem(&free_streams, &slot, 0);
		return COPY_NOT_OPEN;
	}
	__sync_fetch_and_add(&s->slots, 1);
	if (!take_stream(s, &st->id)) {
		st->id = NO_STREAM;
		SHARED(st->phase) = STREAM_ABANDONED;
		return COPY_STREAM_LIMIT;
	}
	cl->slot = slot;
	return COPY_SENT;
}

// find_stream sets the claim's slot to the subscriber's stream, which it opens if this run may.
INLINE enum reason find_stream(const struct fan_out *f, const struct subscription *sub, const struct path *path,
			       struct claim *cl, u64 stream_id)
{
	struct downstream_key *key = (struct downstream_key *)f->c->stream_key;
	key->stream_id = stream_id;
	key->publisher = f->c->publisher;
	key->subscriber = sub->subscriber;
	u32 *slot = bpf_map_lookup_elem(&downstreams, key);

	cl->opened = cl->prefix_len = 0;
	if (slot) {
		cl->slot = SHARED(*slot);
		// The element may have been deleted, and belong to another stream already. Then it is not found again.
		slot = bpf_map_lookup_elem(&downstreams, key);
		return slot && SHARED(*slot) == cl->slot ? COPY_SENT : COPY_NOT_OPEN;
	}
	if (!f->c->opens)
		return COPY_NOT_OPEN;
	if (!subgroup_wanted(sub, f->subgroup))
		return COPY_FILTERED;
	cl->opened = 1;
	enum reason why = may_open(f->subgroup, sub, path, cl);
	return why == COPY_SENT ? open_stream(f->subgroup, sub, path, key, cl) : why;
}

// prepare fills the claim for the body of a frame: all but the header that each hop writes anew.
INLINE void prepare(struct claim *cl, const struct scratch *c, const struct frame *fr, const struct stream_state *st,
		    const struct path *path)
{
	cl->from = fr->offset + c->header.len;
	cl->to = fr->offset + fr->len;
	cl->fin = fr->fin;
	cl->level = st->level;
	cl->data_len = cl->prefix_len + fr->len - c->header.len;
	cl->packet_len = packet_len(path, stream_header_len(st->id, cl->to + st->delta - cl->data_len) + cl->data_len);
}

// build_copy makes the packet of a claim in OUT. The frame's header and the prefix are written in front of the body,
// over bytes that are not needed any more. It fails only if there is a bug, so failures count as losses.
INLINE int build_copy(struct fan_out *f, const struct subscription *sub, const struct stream_state *st,
		      const struct path *path, const struct neighbor *n)
{
	struct scratch *c = f->c;
	struct claim *cl = &c->claim;
	if (c->frame >= MAX_FRAMES)
		return -1;
	const struct frame *fr = &c->frames[c->frame];
	u32 body = cl->to - cl->from, at = fr->at + fr->len - body;
	u64 offset = cl->to + st->delta - cl->data_len;

	if (cl->prefix_len && write_prefix(c, at, f->subgroup, path, sub->alias) != cl->prefix_len)
		return -1;
	u32 frame_len = stream_header_len(st->id, offset) + cl->data_len, src = at + body - frame_len;
	if (frame_len > MAX_PAYLOAD)
		return -1;
	barrier_var(src); // as in write_prefix
	if (src > IN + PAYLOAD_AT + MAX_PAYLOAD)
		return -1;
	write_stream_header(c->buf + src, st->id, offset, cl->fin);
	return seal_packet(c, path, cl, src, frame_len) || write_headers(c, path, n, frame_len + TAG_LEN);
}

// claim_copy claims the bytes, if they come next and may go: may_open has asked about the first ones. A copy without
// bytes and FIN would claim nothing, so it could be made again and again.
INLINE enum reason claim_copy(struct claim *cl, const struct stream_state *st)
{
	enum reason why = cl->data_len || cl->fin ? look_at_stream(st, cl) : COPY_EMPTY;

	if (why == COPY_SENT && !cl->opened)
		why = admit_claim(cl);
	return why == COPY_SENT ? claim_bytes(cl) : why;
}

// copy_stream makes and sends the subscriber's copy.
INLINE enum reason copy_stream(struct fan_out *f, const struct subscription *sub)
{
	struct scratch *c = f->c;

	if (c->frame >= MAX_FRAMES)
		return COPY_NO_PATH;
	struct frame *fr = &c->frames[c->frame];
	struct claim *cl = &c->claim;
	cl->subscriber = sub->subscriber;
	struct path *path;
	struct neighbor *n;
	enum reason why = find_route(cl, &path, &n);
	if (why != COPY_SENT)
		return why;
	if (!affordable(c, fr->len))
		return COPY_BUDGET;
	cl->data_len = fr->len - c->header.len;
	why = find_stream(f, sub, path, cl, fr->stream_id);
	if (why != COPY_SENT)
		return why;
	struct stream_state *st = streams_at(cl->slot);
	if (!st || (!cl->opened && SHARED(st->phase) != STREAM_OPEN))
		return COPY_NOT_OPEN;
	prepare(cl, c, fr, st, path);
	why = claim_copy(cl, st);
	if (why != COPY_SENT) {
		if (cl->opened)
			SHARED(st->phase) = STREAM_ABANDONED; // user space, which sees the packet too, goes on with it
		return why;
	}
	spend(c, cl->data_len);
	int err = build_copy(f, sub, st, path, n);
	if (cl->opened)
		SHARED(st->phase) = STREAM_OPEN; // also if it failed: the bytes are claimed, loss recovery sends them
	return err || send_clone(f->skb, c, n, &path->udp) ? COPY_LOST : COPY_SENT;
}

static long stream_step(u32 i, struct fan_out *f)
{
	const struct subscription *sub = subscription_at(f, i);
	if (!sub)
		return 1;
	count_copy(f->c, sub->subscriber, copy_stream(f, sub));
	return 0;
}

// forward_stream offers a STREAM frame to the subscribers of its track.
GLOBAL int forward_stream(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();

	if (!c || c->frame >= MAX_FRAMES)
		return -1;
	const struct frame *fr = &c->frames[c->frame];
	if (!fr->len && !fr->fin) {
		count(FRAME_EMPTY);
		return 0;
	}
	struct subgroup *g = find_subgroup(c);
	if (!g)
		return 0;
	c->track = g->track;
	c->group = g->group;
	c->list_version = current_version(track_versions_at(c->track));
	struct track *t = find_subscriptions(c->track, c->list_version, 0);
	if (!t || t->publisher != c->publisher) { // it has another publisher now
		count(FRAME_NO_TRACK);
		return 0;
	}
	count(FRAME_FORWARDED);
	struct fan_out f = { .skb = skb, .c = c, .part = t, .subgroup = g };
	bpf_loop(max_copies, stream_step, &f, 0);
	if (t->count > max_copies)
		count(COPY_BUDGET);
	return 0;
}
