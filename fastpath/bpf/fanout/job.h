// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Jobs: an RTP packet's copies beyond the budget, for workers: goroutines of the relay's process.
//
// rtp_ingress puts a job into the ring of each worker that has copies to make (playerjob.h). The worker runs
// continue_rtp on it by BPF_PROG_RUN, chunk_copies at a time, so that softirqs and other threads get the CPU in
// between. Worker w of n serves the first chunk behind the budget, counted from w, and then each n-th: a player with a
// place in the list belongs to one worker, which takes jobs in the order in which they came. So copies for a player
// keep the order of the packets.
//
// A run has ended when it could be seen by user space, but a job has not. What the run would find is therefore kept for
// it: user space frees memory and indices for others when all runs have ended, and then all jobs that were given by
// then (fastpath/workers_linux.go).
//
// User space gets the packet at once, and would send what the workers are about to. It waits for the jobs of the media
// that it knows to be given, for a limited time. That costs no correctness: both claim.
#pragma once

#include "../shared/reason.h"
#include "../shared/scratch.h"
#include "../shared/share.h"
#include "budget.h"

enum job_limits {
	MAX_WORKERS = 64, // with chunks of 16, more have nothing to do for 1,024 players
	JOB_RING_LEN = 1 << 18, // bytes: some 160 jobs with full packets
	JOBS_PER_RING = 160,
	PROMISES = 256, // counters of the jobs that were given; medias share them
	MAX_JOB = 1600, // bytes behind the job
};

// A packet on its way to a worker. Its Ethernet frame follows.
struct job {
	u64 since; // when the packet came: CLOCK_MONOTONIC, nanoseconds
	u32 media, share; // indices; the share counts the job, see shared/share.h
	u32 position; // of the player that is next
	u32 count; // of players in the list
};
_Static_assert(sizeof(struct job) == 24, "job is shared with user space");

const volatile u32 workers = 0; // that there are
const volatile u32 chunk_copies = 16;
const volatile u64 job_lifetime = 0; // nanoseconds; the loader sets it. User space has gone on without older jobs

// How many jobs each worker was given: by media, modulo PROMISES, and by worker. The last ones are about all medias.
SHARED_ARRAY(promises, (PROMISES + 1) * MAX_WORKERS, u64); // the loader makes them for the workers that there are
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

// too_old reports whether user space has gone on without the jobs of a packet that came then. The age has a sign: what
// another CPU has just noted may be ahead of this CPU's clock, and a machine may have been booted a moment ago.
INLINE bool too_old(u64 since)
{
	return (s64)(bpf_ktime_get_ns() - since) > (s64)job_lifetime;
}

// note_promise counts jobs of a media that a worker is given.
static __noinline int note_promise(u32 media, u32 worker, s32 jobs)
{
	u32 at = media % PROMISES * workers + worker, all = PROMISES * workers + worker;
	u64 *given = bpf_map_lookup_elem(&promises, &at), *sum = bpf_map_lookup_elem(&promises, &all);

	if (!given || !sum)
		return -1;
	__sync_fetch_and_add(given, (s64)jobs);
	__sync_fetch_and_add(sum, (s64)jobs);
	return 0;
}

// job_of returns the job in the scratch, which lies in front of the frame.
INLINE struct job *job_of(struct scratch *c)
{
	return (struct job *)(c->buf + IN + PAYLOAD_AT - sizeof(struct job));
}

// give_job puts the scratch's job and the frame behind it, of len bytes, into the ring of a worker, unless that is
// full. It wakes the worker if the ring was empty.
static __noinline int give_job(struct scratch *c, u32 len, u32 worker)
{
	void *ring = bpf_map_lookup_elem(&job_rings, &worker);
	struct job *j = job_of(c);
	u32 media = j->media, share = j->share;

	barrier_var(len); // see replace_clone
	if (!ring || len > MAX_JOB)
		return JOB_FULL;
	hold(share, SHARE_JOBS, 1); // before the worker can let it go
	note_promise(media, worker, 1); // before the worker can begin: user space must not miss a job that goes on
	if (!bpf_ringbuf_output(ring, j, sizeof(*j) + len, 0))
		return JOB_GIVEN;
	note_promise(media, worker, -1);
	hold(share, SHARE_JOBS, -1);
	return JOB_FULL;
}

// may_give returns JOB_GIVEN if jobs may be given that a share counts.
INLINE enum reason may_give(u32 share)
{
	u32 zero = 0;
	u64 *until = bpf_map_lookup_elem(&busy_until, &zero);

	if (until && bpf_ktime_get_ns() < SHARED(*until))
		return JOB_BUSY;
	return may_hold(share, SHARE_JOBS) ? JOB_GIVEN : JOB_SHARE;
}

// give_jobs gives the scratch's job, for the positions behind the first ones, to the workers that have some of them.
INLINE void give_jobs(struct scratch *c, u32 len, u32 first)
{
	struct job *j = job_of(c);

#pragma clang loop unroll(disable)
	for (u32 w = 0; w < MAX_WORKERS; w++) {
		j->position = first + w * chunk_copies;
		if (w >= workers || j->position >= j->count)
			break;
		count(give_job(c, len, w));
	}
}

GO_TYPE(struct, job);
GO_TYPE(enum, job_limits);
