// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Jobs: what is beyond the budget of a packet, for workers: goroutines of the relay's process.
//
// An entry program puts a job into the ring of each worker that has copies to make: what streamjob.h says of a frame,
// or playerjob.h of an RTP packet. The worker runs a program on it by BPF_PROG_RUN, chunk_copies at a time, so that
// softirqs and other threads get the CPU in between. Worker w of n serves the first chunk behind the budget, counted
// from w, and then each n-th: a subscription or player with a place in the list belongs to one worker, which takes jobs
// in the order in which they came. So copies for a receiver keep the order of the packets.
//
// A run has ended when it could be seen by user space, but a job has not. What the run would find is therefore kept for
// it: user space frees memory and indices for others when all runs have ended, and then all jobs that were given by
// then (fastpath/workers_linux.go).
//
// User space gets the packet at once, and would send what the workers are about to. It waits for the jobs of the track
// or media that it knows to be given, for a limited time. That costs no correctness: both claim.
#pragma once

#include "../shared/reason.h"
#include "../shared/scratch.h"
#include "../shared/share.h"
#include "budget.h"

enum job_limits {
	MAX_WORKERS = 8,
	JOB_RING_LEN = 1 << 18, // bytes: some 160 jobs with full packets
	JOBS_PER_RING = 160,
	PROMISES = 256, // counters of the jobs that were given; tracks and medias share them
	MAX_JOB = 1600, // bytes behind the job
};

const volatile u32 workers = 0; // that there are
const volatile u32 chunk_copies = 16;
const volatile u64 job_lifetime = 0; // nanoseconds; the loader sets it. User space has gone on without older jobs

// How many jobs each worker was given.
struct promise {
	u64 given[MAX_WORKERS];
};

// By track or media, modulo PROMISES. The last element is about all of them.
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

// note_promise counts jobs of a track or media that a worker is given.
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

// give_job puts the scratch's job and what lies at an offset into the ring of a worker, unless that is full. It wakes
// the worker if the ring was empty.
static __noinline int give_job(struct scratch *c, u32 at, u32 len, u32 worker)
{
	void *ring = bpf_map_lookup_elem(&job_rings, &worker);

	barrier_var(at); // as in write_prefix
	if (!ring || at < IN + PAYLOAD_AT || len > MAX_JOB)
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

// give_jobs gives the scratch's job, for the positions behind the first ones, to the workers that have some of them.
INLINE void give_jobs(struct scratch *c, u32 at, u32 len, u32 first)
{
#pragma clang loop unroll(disable)
	for (u32 w = 0; w < MAX_WORKERS; w++) {
		c->job.position = first + w * chunk_copies;
		if (w >= workers || c->job.position >= c->job.count)
			break;
		count(give_job(c, at, len, w));
	}
}

GO_TYPE(enum, job_limits);
GO_TYPE(enum, job_kind);
