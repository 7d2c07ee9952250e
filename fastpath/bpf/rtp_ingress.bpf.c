// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Ingress of the device that leads to RTSP clients: sends copies of publishers' RTP packets to players. Every packet
// passes on to user space unchanged, whatever becomes of it here.
//go:build ignore

#include "application/rtp.h"
#include "fanout/playerjob.h"

INLINE enum reason take_rtp(struct __sk_buff *skb)
{
	struct rtp_packet p = {};
	struct rtp_media *m = 0;
	struct scratch *c = scratch_get();

	if (!c)
		return RTP_NOT_MEDIA;
	enum reason why = read_rtp(skb, &p, &m);
	if (why != RTP_FORWARDED)
		return why;
	struct rtp_slot *slot = claim_rtp(m, &p);
	if (!slot)
		return RTP_CLAIMED;
	c->arrived = p.arrived;
	if (SHARED(m->count) > rtp_copies())
		hand_on_rtp(skb, c, &p, m);
	forward_rtp(skb, c, &p, m, slot, 0, rtp_copies());
	return RTP_FORWARDED;
}

SEC("tc") int rtp_ingress(struct __sk_buff *skb)
{
	count(take_rtp(skb));
	return VERDICT_NEXT;
}

// continue_rtp makes some of the copies of a job, see fanout/playerjob.h. A worker of the relay's process runs it. It
// returns whether the job can be continued.
SEC("tc") int continue_rtp(struct __sk_buff *skb)
{
	struct scratch *c = scratch_get();
	enum reason why = c ? continue_packet(skb, c) : JOB_ENDED;

	count(why);
	return why == JOB_CONTINUED;
}

char _license[] SEC("license") = "Dual BSD/GPL";
