// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Subgroup streams: which subgroup a publisher's stream carries, which subscriptions it is opened for, and the prefix
// that a downstream stream begins with, in place of the publisher's header: the WebTransport stream header, then
// SUBGROUP_HEADER with this hop's track alias. User space writes the same bytes (package relay), so that it can send
// them again.
#pragma once

#include "../shared/state.h"
#include "moqt.h"

// has_earlier reports whether another stream of the publisher brought the subgroup of a stream first, or may have. User
// space may put both into one log, and send the rest on the stream that carries the beginning: so it opens another one
// itself. The track is looked up last: user space raises fresh_group and fresh_subgroup, and then forgets the first.
INLINE bool has_earlier(const struct subgroup *g, const struct stream_key *stream)
{
	struct subgroup_key key = {
		.group = g->group, .subgroup = g->subgroup, .track = g->track, .publisher = stream->publisher,
	};

	bpf_map_update_elem(&first_streams, &key, &stream->stream_id, BPF_NOEXIST);
	u64 *first = bpf_map_lookup_elem(&first_streams, &key);
	struct track *t = find_track(g->track);
	return !t || !first || *first != stream->stream_id || g->group < t->fresh_group ||
	       (g->group == t->fresh_group && g->subgroup < t->fresh_subgroup);
}

// declined counts why a frame is not forwarded.
INLINE struct subgroup *declined(enum reason why)
{
	count(why);
	return 0;
}

// find_subgroup returns the subgroup of the frame's stream, which it registers if the frame carries its header. If
// there is none, it counts why and returns 0. In the scratch, header.len is 0 unless the frame carries the header, and
// opens says whether this run may open streams: if any run could, it might do so again after user space closed one.
static __noinline struct subgroup *find_subgroup(struct scratch *c)
{
	if (c->frame >= MAX_FRAMES)
		return 0;
	const struct frame *f = &c->frames[c->frame];
	struct stream_key key = { .stream_id = f->stream_id, .publisher = c->publisher };
	struct subgroup *g = bpf_map_lookup_elem(&subgroups, &key);
	const struct media_header *h = &c->header;

	c->opens = 0;
	parse_subgroup_header(c);
	if (bpf_map_lookup_elem(&ended, &key))
		return declined(FRAME_ENDED);
	if (g)
		return g;
	if (!h->len)
		return declined(FRAME_NOT_MEDIA);
	struct alias_key alias = { .alias = h->alias, .publisher = c->publisher };
	u32 *found = bpf_map_lookup_elem(&aliases, &alias);
	u32 index = found ? SHARED(*found) : 0;
	struct track *track = found ? find_track(index) : 0;
	struct publisher *p = publishers_at(c->publisher);
	if (!track || !has_alias(track, &alias) || !p)
		return declined(FRAME_NO_TRACK);
	if (f->stream_id < p->first_stream)
		return declined(FRAME_ENDED);
	struct subgroup new = {
		.group = h->group, .subgroup = h->subgroup, .track = index, .header_len = h->len,
		.header_type = (h->type & SUBGROUP_FLAGS) | (h->subgroup ? SUBGROUP_ID_PRESENT : 0),
		.priority = h->type & DEFAULT_PRIORITY_SUBGROUP ? track->default_priority : h->priority,
	};
	if (!may_hold(c->publisher, SHARE_SUBGROUPS))
		return declined(FRAME_SHARE);
	bool earlier = has_earlier(&new, &key);
	if (bpf_map_update_elem(&subgroups, &key, &new, BPF_NOEXIST))
		return declined(FRAME_NO_SLOT);
	c->opens = !earlier;
	hold(c->publisher, SHARE_SUBGROUPS, 1);
	return bpf_map_lookup_elem(&subgroups, &key);
}

// subgroup_wanted reports whether a subscription's range begins no later than the subgroup's first object. If it begins
// within the group, user space opens the stream, because it knows the objects.
INLINE bool subgroup_wanted(const struct subscription *sub, const struct subgroup *g)
{
	if (!sub->forward || g->group > sub->end_group)
		return false;
	return g->group > sub->start_group || (g->group == sub->start_group && !sub->start_object);
}

INLINE u32 prefix_len(const struct subgroup *g, const struct path *path, u64 alias)
{
	u32 subgroup_id = g->header_type & SUBGROUP_ID_PRESENT ? vi64_len(g->subgroup) : 0;

	return path->stream_prefix_len + 1 + vi64_len(alias) + vi64_len(g->group) + subgroup_id + 1;
}

// write_prefix writes the prefix so that it ends at buf[end] and returns its length, or 0.
GLOBAL u32 write_prefix(struct scratch *c, u32 end, const struct subgroup *g, const struct path *path, u64 alias)
{
	if (!c || !g || !path || end < IN + PAYLOAD_AT)
		return 0;
	// Without the barrier the compiler turns both bounds into one comparison of end - (IN + PAYLOAD_AT), which says
	// nothing about end to the verifier.
	barrier_var(end);
	if (end > IN + PAYLOAD_AT + MAX_PAYLOAD)
		return 0;
	u8 *p = c->buf + end;
	u32 len = 0;

	p[-1] = g->priority;
	len = 1;
	if (g->header_type & SUBGROUP_ID_PRESENT)
		len += write_vi64_before(p - (len & 63), g->subgroup);
	len += write_vi64_before(p - (len & 63), g->group);
	len += write_vi64_before(p - (len & 63), alias);
	len++;
	p[-(s64)(len & 63)] = g->header_type;
	if (path->stream_prefix_len) {
		u64 *w = (u64 *)(p - (len & 63)) - 2;
		const u64 *prefix = (const u64 *)path->stream_prefix;
		w[0] = prefix[0];
		w[1] = prefix[1];
		len += path->stream_prefix_len & 15;
	}
	return len;
}
