// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Jobs of RTP: the frame of a packet, as it came. continue_rtp reads it again as rtp_ingress has read it, see job.h. So
// it finds the media by the packet's source, and the players that have the packet by its number.
//
// The position and the age of the job are beside the frame, in the control buffer of the packet that the worker makes
// of it, so that a copy leaves the payload where it is.
#pragma once

#include "job.h"
#include "players.h"

// What the control buffer of a job's packet holds.
enum rtp_job_word {
	JOB_POSITION,
	JOB_SINCE_LOW,
	JOB_SINCE_HIGH,
};

// complete_checksum writes the UDP checksum that a device was to complete into the frame that lies in IN. Its field
// has the sum of the pseudo header.
static __noinline int complete_checksum(struct scratch *c, const struct rtp_packet *p)
{
	u32 at = p->d.payload_at - sizeof(struct udphdr), len = p->d.payload_len + sizeof(struct udphdr);

	if (at > MAX_HEADERS || len > MAX_RTP + sizeof(struct udphdr))
		return -1;
	u8 *udp = c->buf + IN + PAYLOAD_AT + at;
	*(u32 *)(udp + len) = 0; // up to which the sum is rounded
	u16 sum = ~sum_of_payload(udp, (len + 3) & ~3u);
	*(u16 *)(udp + 6) = sum ?: 0xffff;
	return 0;
}

// load_frame puts the frame of a packet into IN, without its link-layer addresses: the worker's packet comes from
// nowhere. It returns the length.
static __noinline u32 load_frame(struct __sk_buff *skb, struct scratch *c, const struct rtp_packet *p)
{
	u32 len = p->d.payload_at + p->d.payload_len;

	barrier_var(len); // see replace_clone
	if (!len || len > MAX_JOB)
		return 0;
	if (bpf_skb_load_bytes(skb, 0, c->buf + IN + PAYLOAD_AT, len))
		return 0;
	__builtin_memset(c->buf + IN + PAYLOAD_AT, 0, 2 * ETH_ALEN);
	return p->checksum_start && complete_checksum(c, p) ? 0 : len;
}

// hand_on_rtp gives a packet to the workers, for the players from a position on.
static __noinline int hand_on_rtp(struct __sk_buff *skb, struct scratch *c, const struct rtp_packet *p,
				  const struct rtp_media *m)
{
	struct job *j = job_of(c);
	enum reason why = workers ? may_give(m->share) : COPY_BUDGET;
	u32 len = why == JOB_GIVEN ? load_frame(skb, c, p) : 0;
	if (!len) {
		count(why == JOB_GIVEN ? JOB_FULL : why);
		return -1;
	}
	j->since = p->arrived ?: bpf_ktime_get_ns();
	j->media = m->index;
	j->share = m->share;
	j->count = SHARED(m->count);
	give_jobs(c, len, rtp_copies());
	return 0;
}

// continue_packet offers a job's packet to the next players.
INLINE enum reason continue_packet(struct __sk_buff *skb, struct scratch *c)
{
	struct rtp_packet p = {};
	struct rtp_media *m = 0;
	u64 since = (u64)skb->cb[JOB_SINCE_HIGH] << 32 | skb->cb[JOB_SINCE_LOW];

	if (too_old(since))
		return JOB_LATE;
	if (read_rtp(skb, &p, &m) != RTP_FORWARDED)
		return JOB_ENDED;
	struct rtp_slot *slot = find_rtp(m, &p);
	if (!slot)
		return JOB_ENDED;
	c->arrived = p.arrived ? since : 0;
	forward_rtp(skb, c, &p, m, slot, skb->cb[JOB_POSITION], chunk_copies);
	return JOB_CONTINUED;
}

GO_TYPE(enum, rtp_job_word);
