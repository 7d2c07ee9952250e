// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Jobs: what is beyond the budget of a packet, for workers: goroutines of the relay's process.
//
// server_ingress puts the plaintext of a frame into the ring of each worker that has subscriptions to serve. The worker
// runs continue_fan_out on it by BPF_PROG_RUN, chunk_copies at a time, so that softirqs and other threads get the CPU
// in between. Worker w of n serves the first chunk behind the budget, counted from w, and then each n-th: a
// subscription with a place in the list belongs to one worker, which takes jobs in the order in which they came. So
// copies for a subscriber keep the order of the packets.
//
// A run has ended when it could be seen by user space, but a job has not. What the run would find is therefore kept for
// it: user space frees memory and indices for others when all runs have ended, and then all jobs that were given by
// then (fastpath/workers_linux.go). So the job names the list, the track and the publisher by index and version.
//
// User space gets the packet at once, and would send what the workers are about to. It waits for the jobs of the track
// that it knows to be given, for a limited time. That costs no correctness: both claim.
#pragma once

#include "copy.h"

enum job_limits {
	MAX_WORKERS = 8,
	JOB_RING_LEN = 1 << 18, // bytes: some 160 jobs with full packets
	JOBS_PER_RING = 160,
	PROMISES = 256, // counters of the jobs that were given; tracks share them
};

const volatile u32 workers = 0; // that there are
const volatile u32 chunk_copies = 16;
const volatile u64 job_lifetime = 0; // nanoseconds; the loader sets it. User space has gone on without older jobs

// How many jobs each worker was given.
struct promise {
	u64 given[MAX_WORKERS];
};

// By track, modulo PROMISES. The last element is about all of them.
SHARED_ARRAY(promises, PROMISES + 1, struct promise);
// The time, CLOCK_MONOTONIC in nanoseconds, until which the workers have enough to do: a worker was late.
SHARED_ARRAY(busy_until, 1, u64);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_WORKERS);
	__type(key, u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_RINGBUF);
		__uint(max_entries, JOB_RING_LEN);
	});
} job_rings SEC(".maps");

// note_promise counts jobs of a track that a worker is given.
static __noinline int note_promise(u32 track, u32 worker, s32 jobs)
{
	u32 at = track % PROMISES, all = PROMISES;
	struct promise *p = bpf_map_lookup_elem(&promises, &at), *sum = bpf_map_lookup_elem(&promises, &all);

	if (!p || !sum || worker >= MAX_WORKERS)
		return -1;
	__sync_fetch_and_add(&p->given[worker], (s64)jobs);
	__sync_fetch_and_add(&sum->given[worker], (s64)jobs);
	return 0;
}

// give_job puts a job into the ring of a worker, unless that is full. It wakes the worker if the ring was empty.
static __noinline int give_job(struct scratch *c, u32 at, u32 len, u32 worker)
{
	void *ring = bpf_map_lookup_elem(&job_rings, &worker);

	barrier_var(at); // as in write_prefix
	if (!ring || at < IN + PAYLOAD_AT || len > MAX_PAYLOAD)
		return JOB_FULL;
	barrier_var(at);
	if (at > IN + PAYLOAD_AT + MAX_PAYLOAD)
		return JOB_FULL;
	struct job *j = (struct job *)(c->buf + at - sizeof(struct job)); // over bytes that are not needed any more
	*j = c->job;
	hold(c->publisher, SHARE_JOBS); // before the worker can let it go
	note_promise(c->track, worker, 1); // before the worker can begin: user space must not miss a job that goes on
	if (!bpf_ringbuf_output(ring, j, sizeof(*j) + len, 0))
		return JOB_GIVEN;
	note_promise(c->track, worker, -1);
	let_go(c->publisher, SHARE_JOBS);
	return JOB_FULL;
}

// may_give returns JOB_GIVEN if jobs may be given because of a publisher.
INLINE enum reason may_give(u32 publisher)
{
	u32 zero = 0;
	u64 *until = bpf_map_lookup_elem(&busy_until, &zero);

	if (until && bpf_ktime_get_ns() < SHARED(*until))
		return JOB_BUSY;
	return may_hold(publisher, SHARE_JOBS) ? JOB_GIVEN : JOB_SHARE;
}

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
#pragma clang loop unroll(disable)
	for (u32 w = 0; w < MAX_WORKERS; w++) {
		j->position = max_copies + w * chunk_copies;
		if (w >= workers || j->position >= count_of_all)
			break;
		count(give_job(c, fr->at, fr->len, w));
	}
	return 0;
}

GO_TYPE(enum, job_limits);

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
