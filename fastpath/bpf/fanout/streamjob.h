// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Jobs of MoQT: the plaintext of a frame, for continue_fan_out; see job.h. The job names the list, the track and the
// publisher by index and version.
#pragma once

#include "copy.h"
#include "job.h"

// hand_on gives a frame that is offered to count subscriptions to the workers.
static __noinline int hand_on(struct __sk_buff *skb, struct scratch *c, u32 count_of_all, u32 first)
{
	if (c->frame >= MAX_FRAMES)
		return -1;
	const struct frame *fr = &c->frames[c->frame];
	enum reason why = may_give(c->publisher);
	if (why != JOB_GIVEN) {
		count(why);
		return -1;
	}
	struct job *j = &c->job;
	j->kind = JOB_STREAM;
	j->proto = skb->protocol;
	j->since = c->arrived ?: bpf_ktime_get_ns();
	j->list_version = c->list_version;
	j->track = c->track;
	j->publisher = c->publisher;
	j->stream_id = fr->stream_id;
	j->offset = fr->offset;
	j->len = fr->len;
	j->header_len = c->header.len;
	j->fin = fr->fin;
	j->first = first;
	j->count = count_of_all;
	give_jobs(c, fr->at, fr->len, max_copies);
	return 0;
}

// find_job_subgroup returns the subgroup of the job's frame, or 0 if it has ended.
static __noinline struct subgroup *find_job_subgroup(const struct job *j)
{
	struct stream_key key = { .stream_id = j->stream_id, .publisher = j->publisher };

	return bpf_map_lookup_elem(&ended, &key) ? 0 : bpf_map_lookup_elem(&subgroups, &key);
}

// take_job makes the frame of a job the one that is offered.
INLINE enum reason take_job(struct __sk_buff *skb, struct scratch *c)
{
	struct job *j = &c->job;

	if (bpf_skb_load_bytes(skb, 0, j, sizeof(*j)))
		return JOB_ENDED;
	if (bpf_ktime_get_ns() - j->since > job_lifetime)
		return JOB_LATE;
	u32 len = j->len;
	barrier_var(len); // see open_packet
	if (len > MAX_PAYLOAD)
		return JOB_ENDED;
	if (len && bpf_skb_load_bytes(skb, sizeof(*j), c->buf + IN + PAYLOAD_AT, len))
		return JOB_ENDED;
	c->frame = 0;
	c->frames[0].stream_id = j->stream_id;
	c->frames[0].offset = j->offset;
	c->frames[0].at = IN + PAYLOAD_AT;
	c->frames[0].len = j->len;
	c->frames[0].fin = j->fin;
	c->header.len = j->header_len;
	c->publisher = j->publisher;
	c->track = j->track;
	c->list_version = j->list_version;
	c->position = j->position;
	c->arrived = time_if_measuring() ? j->since : 0;
	c->checksum_start = 0;
	set_budget(c, chunk_copies);
	return JOB_CONTINUED;
}
