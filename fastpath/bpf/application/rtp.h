// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The application layer: RTP (RFC 3550).
//
// What it promises to the fan-out:
//
//	which media        read_rtp: the media that a datagram belongs to, if all of it is as expected
//	for whom           claim_rtp takes the packet, so that it is offered once, and returns the slot that notes which
//	                   players have it; find_rtp returns the slot of a packet that was taken. The caller may use the
//	                   slot until it calls leave_rtp
//	what is rewritten  SSRC, sequence number and timestamp: write_rtp_header
//
// The payload is the same for all players.
#pragma once

#include "../shared/delay.h"
#include "../shared/reason.h"
#include "../shared/rtp.h"
#include "../transport/accept.h"
#include "../transport/udp.h"

#define RTP_HEADER_LEN 12 // without the list of CSRCs, which counts as payload here
#define RTP_VERSION 0x80
#define RTP_FIXED 0xf0 // version, padding and extension bits

// An RTP packet.
struct rtp_packet {
	struct datagram d;
	u8 header[RTP_HEADER_LEN];
	u32 checksum_start; // if the device is to complete its checksum; else 0
	u64 key; // see rtp_slot
	u64 arrived; // 0: delays are not measured
};

INLINE u16 rtp_sequence(const u8 *header) { return bpf_ntohs(*(__be16 *)(header + 2)); }
INLINE u32 csrcs_len(const u8 *header) { return (header[0] & 15) * 4; }
INLINE u32 rtp_timestamp(const u8 *header) { return bpf_ntohl(*(__be32 *)(header + 4)); }

// accept_rtp reports whether a packet is one that a media is to have. It returns RTP_FORWARDED if so, and sets the
// packet's key.
INLINE enum reason accept_rtp(const struct rtp_media *m, struct rtp_packet *p)
{
	const u8 *header = p->header;
	u64 source = SHARED(m->source);
	u32 handled = SHARED(m->handled);

	if (SHARED(m->paused))
		return RTP_PAUSED;
	if ((header[0] & RTP_FIXED) != RTP_VERSION || RTP_HEADER_LEN + csrcs_len(header) > p->d.payload_len)
		return RTP_HEADER;
	if ((header[1] & 0x7f) != m->payload_type)
		return RTP_PAYLOAD_TYPE;
	if (!source || *(__be32 *)(header + 8) != bpf_htonl((u32)source))
		return RTP_SSRC;
	u16 ahead = rtp_sequence(header) - (u16)handled;
	if (!ahead || ahead >= 0x8000)
		return RTP_OLD;
	p->key = (u64)(handled + ahead) << 16 | (u16)(source >> 32);
	return ahead < RTP_SLOTS ? RTP_FORWARDED : RTP_AHEAD;
}

// slot_of returns the slot that a packet shares with others. Without the barrier the compiler swaps the bytes after it
// has taken the remainder, and the verifier of Linux 6.12 does not know bounds of a swapped number.
INLINE struct rtp_slot *slot_of(struct rtp_media *m, const struct rtp_packet *p)
{
	u32 sequence = rtp_sequence(p->header);

	barrier_var(sequence);
	return &m->slots[sequence % RTP_SLOTS];
}

// count_users changes the number of runs that use a slot, and returns the number before. The order matters: a run
// enters before it looks at the key, and leaves after its last change. With barrier_var the result is used, so the
// addition is a full barrier, see claim.h.
INLINE u32 count_users(struct rtp_slot *s, s32 change)
{
	u32 before = __sync_fetch_and_add(&s->users, change);

	barrier_var(before);
	return before;
}

INLINE u32 enter_rtp(struct rtp_slot *s) { return count_users(s, 1); }
INLINE void leave_rtp(struct rtp_slot *s) { count_users(s, -1); }

// claim_rtp returns the slot of a packet, or 0 if it has come before, or another one with its sequence number and SSRC
// that user space has not handled yet, or if a run still uses the slot for the packet before.
INLINE struct rtp_slot *claim_rtp(struct rtp_media *m, const struct rtp_packet *p)
{
	struct rtp_slot *s = slot_of(m, p);
	u64 key = p->key, before = SHARED(s->key);

	if (before == key || before == RTP_TAKING || ((u32)before == (u32)key && !SHARED(s->taken)))
		return 0;
	if (!__sync_bool_compare_and_swap(&s->key, before, RTP_TAKING))
		return 0;
	if (enter_rtp(s)) {
		leave_rtp(s);
		__sync_lock_test_and_set(&s->key, before);
		return 0;
	}
#pragma unroll
	for (u32 i = 0; i < PLAYER_WORDS; i++)
		SHARED(s->players[i]) = 0;
	SHARED(s->timestamp) = rtp_timestamp(p->header);
	SHARED(s->taken) = 0;
	__sync_lock_test_and_set(&s->key, key); // a full barrier
	return s;
}

// find_rtp returns the slot of a packet that claim_rtp has taken, or 0 if that is another packet's now.
INLINE struct rtp_slot *find_rtp(struct rtp_media *m, const struct rtp_packet *p)
{
	struct rtp_slot *s = slot_of(m, p);

	enter_rtp(s);
	if (SHARED(s->key) == p->key)
		return s;
	leave_rtp(s);
	return 0;
}

// read_rtp fills p with a packet that the stack would hand to the socket for RTP. It returns RTP_FORWARDED if that is
// one of a media.
INLINE enum reason read_rtp(struct __sk_buff *skb, struct rtp_packet *p, struct rtp_media **media)
{
	struct datagram *d = &p->d;

	if (parse_datagram(skb, d) || d->dport != rtp_port)
		return RTP_NOT_MEDIA;
	struct endpoint from = { .port = d->sport, .v6 = d->v6 };
	__builtin_memcpy(from.addr, d->saddr, sizeof(from.addr));
	struct rtp_media *m = find_media(&from);
	if (!m)
		return RTP_UNKNOWN;
	p->arrived = time_if_measuring();
	if (skb->gso_size)
		return PACKET_GSO;
	enum reason why = accept_headers(skb, d);
	if (why != PACKET_OPENED)
		return why;
	if (!accept_path(d, &m->udp))
		return PACKET_OTHER_PATH;
	if (d->payload_len <= RTP_HEADER_LEN)
		return PACKET_TOO_SHORT;
	if (d->payload_len > MAX_RTP)
		return PACKET_TOO_LONG;
	if (bpf_skb_load_bytes(skb, d->payload_at, p->header, RTP_HEADER_LEN))
		return PACKET_TOO_SHORT;
	*media = m;
	why = accept_rtp(m, p);
	if (why != RTP_FORWARDED)
		return why;
	return accept_checksum(skb, d, &p->checksum_start) ? RTP_FORWARDED : PACKET_CHECKSUM;
}

// write_rtp_header writes the header of a player's copy at to.
INLINE void write_rtp_header(u8 *to, const u8 *header, const struct rtp_player *player)
{
	*(u16 *)to = *(const u16 *)header;
	*(__be16 *)(to + 2) = bpf_htons(rtp_sequence(header) + player->sequence);
	*(__be32 *)(to + 4) = bpf_htonl(rtp_timestamp(header) + player->timestamp);
	*(__be32 *)(to + 8) = player->ssrc;
}
