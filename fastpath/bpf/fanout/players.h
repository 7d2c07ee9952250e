// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The fan-out layer of RTP: one packet of a publisher becomes a copy for each player.
//
// What it promises to the entry program: forward_rtp offers a packet to some players of its media, and returns. The
// copy for a player is sent or declined, and counted, at once. User space sends a declined copy. Workers serve the
// players beyond the budget: playerjob.h.
//
// A copy differs from the packet in its headers only. The clone keeps the rest, and nothing else is copied.
#pragma once

#include "../application/rtp.h"
#include "../policy/flow.h"
#include "budget.h"
#include "clone.h"
#include "route.h"

// A packet on its way to the players of its media: the context of the callback of bpf_loop.
struct rtp_fan_out {
	struct __sk_buff *skb;
	struct scratch *c;
	struct rtp_media *media;
	struct rtp_slot *slot;
	struct rtp_part part; // if frames matter
	u8 header[RTP_HEADER_LEN];
	u32 rest; // checksum of what all copies have in common
	u32 payload_len; // of the datagram
	u32 unchecked; // the packet has no UDP checksum
	u32 judges; // frames matter
	u32 position; // in the list, of the first player that this run serves
};

// rtp_copies returns how many players a run of rtp_ingress offers a packet to: as many as cause the work of max_copies
// copies of the largest size. A copy for a player has the fixed part of one.
INLINE u32 rtp_copies(void)
{
	return max_copies * ((COPY_WORK + MAX_PAYLOAD) / COPY_WORK);
}

// rest_of returns the sum of a datagram without its addresses, ports and RTP header.
INLINE u32 rest_of(const struct rtp_packet *p)
{
	u32 ports = (u32)p->d.sport + p->d.dport;
	u64 changes = (u64)sum_of(p->d.saddr, 32) + ports + sum_of(p->header, RTP_HEADER_LEN) + bpf_htons(IPPROTO_UDP) +
		      bpf_htons(p->d.payload_len + sizeof(struct udphdr));

	return fold((u64)(u16)~p->d.checksum + (u16)~fold(changes));
}

// build_rtp makes the headers of a player's copy in OUT.
static __noinline void build_rtp(struct rtp_fan_out *f, const struct rtp_player *player, const struct neighbor *n)
{
	struct scratch *c = f->c;
	u32 l3 = player->udp.v6 ? 40 : 20, udp_len = f->payload_len + sizeof(struct udphdr);
	u8 *ip = c->buf + OUT + ETH_HLEN, *udp = ip + l3, *rtp = udp + sizeof(struct udphdr);

	write_ethernet(c->buf + OUT, n, player->udp.v6);
	u32 sum = write_ip(ip, &player->udp, udp_len, 0);
	*(u16 *)udp = player->udp.sport;
	*(u16 *)(udp + 2) = player->udp.dport;
	*(u16 *)(udp + 4) = bpf_htons(udp_len);
	write_rtp_header(rtp, f->header, player);
	if (!c->checksum_start) {
		sum = ~fold((u64)f->rest + sum + sum_of(udp, 4) + sum_of(rtp, RTP_HEADER_LEN)) & 0xffff;
		sum = f->unchecked ? 0 : sum ?: 0xffff;
	}
	*(u16 *)(udp + 6) = sum;
	c->head = ETH_HLEN + l3 + sizeof(struct udphdr) + RTP_HEADER_LEN;
	c->tail = 0;
}

// charge takes the bytes of a packet from the player's bucket.
INLINE void charge(struct rtp_flow *f, u32 len)
{
	u32 cost = SHARED(f->bucket_cost);

	if (cost)
		take_bytes(&f->bucket_at, cost, SHARED(f->bucket_burst), len, bpf_ktime_get_ns());
}

// copy_rtp makes and sends the copy of the player at position i.
INLINE int copy_rtp(struct rtp_fan_out *f, struct rtp_player *player, u32 i)
{
	u64 *word = &f->slot->players[i / 64 % PLAYER_WORDS], bit = 1ULL << i % 64;
	struct neighbor *n;
	enum reason why = f->judges ? frame_goes(&player->flow, &f->part) : COPY_SENT;

	if (why != COPY_SENT)
		return why;
	why = find_neighbor(&player->udp, &n);
	if (why != COPY_SENT)
		return why;
	if (f->unchecked && player->udp.v6)
		return COPY_CHECKSUM;
	if ((player->udp.v6 ? 40 : 20) + sizeof(struct udphdr) + f->payload_len > player->mtu)
		return COPY_TOO_LARGE;
	if (__sync_fetch_and_or(word, bit) & bit)
		return COPY_OUT_OF_ORDER;
	build_rtp(f, player, n);
	if (send_clone(f->skb, f->c, n, &player->udp) < 0) {
		__sync_fetch_and_and(word, ~bit); // the clone has not left
		return COPY_LOST;
	}
	if (f->judges)
		charge(&player->flow, f->payload_len);
	__sync_fetch_and_add(&player->packets, 1);
	__sync_fetch_and_add(&player->octets, f->payload_len - RTP_HEADER_LEN - csrcs_len(f->header));
	return COPY_SENT;
}

static long player_step(u32 n, struct rtp_fan_out *f)
{
	u32 i = f->position + n;

	barrier_var(i); // the verifier needs a bound of i, not of n
	if (i >= MAX_PLAYERS || i >= SHARED(f->media->count))
		return 1;
	struct rtp_player *player = &f->media->players[i];
	if (!__sync_fetch_and_or(&player->active, 0)) // a full barrier: the rest is what it was when it became active
		return 0;
	enum reason why = copy_rtp(f, player, i);
	count(why);
	if (why == COPY_SENT)
		note_delay(f->c);
	return 0;
}

// read_part looks up which frame a packet is of, and reads what depends on it.
static __noinline int read_part(struct __sk_buff *skb, const struct rtp_packet *p, struct rtp_media *m,
				struct rtp_part *part)
{
	u32 payload = p->d.payload_at + RTP_HEADER_LEN + csrcs_len(p->header);

	part->frame = number_frame(&m->frames, rtp_timestamp(p->header), rtp_sequence(p->header));
	part->kind = kind_of(skb, m->codec, payload, p->d.payload_at + p->d.payload_len, &m->frames.temporal);
	part->len = p->d.payload_len;
	return 0;
}

// forward_rtp offers a packet to so many players of its media, from a position on, and leaves its slot.
INLINE void forward_rtp(struct __sk_buff *skb, struct scratch *c, const struct rtp_packet *p, struct rtp_media *m,
			struct rtp_slot *slot, u32 position, u32 players)
{
	struct rtp_fan_out f = { .skb = skb, .c = c, .media = m, .slot = slot, .rest = rest_of(p),
				 .payload_len = p->d.payload_len, .unchecked = !p->d.checksum,
				 .position = position };

	c->checksum_start = p->checksum_start;
	__builtin_memcpy(f.header, p->header, RTP_HEADER_LEN);
	f.judges = replaced || SHARED(m->frames.limited);
	if (f.judges)
		read_part(skb, p, m, &f.part);
	bpf_loop(players, player_step, &f, 0);
	leave_rtp(slot);
}
