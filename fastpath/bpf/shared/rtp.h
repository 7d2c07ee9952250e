// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What rtp_ingress shares with user space: medias of RTSP publishers, and the players that get them.
//
// Each packet goes up to user space, whatever becomes of it here, and user space sends it to the players that the
// kernel has not served. So both sides have to know which players have it. A media has a slot for each of the latest
// packets, with a bit for each player. Whoever sets the bit sends the packet to that player. The kernel sets bits
// before user space sees the packet. User space sets all of them at once when it handles the packet. The bits that were
// set before tell which players the kernel has served. If user space is so far behind that the slot is still needed for
// another packet, the kernel leaves the packet to user space.
//
// A bit that is set says that the kernel is about to send, too. If it cannot, because the device is down or there is no
// memory, it clears the bit. So user space, after it has set all bits, waits until no run uses the slot (users), and
// sends to the players whose bits were cleared meanwhile. A run that uses the slot also keeps it from becoming another
// packet's in the kernel: it may have stood still for long, on a virtual machine, and would set a bit of that packet.
//
// The kernel numbers packets from the packet on that user space has handled last. If the publisher's sequence numbers
// jump back while user space is behind, the kernel gives a packet another number than user space does later. So user
// space looks for the sequence number, the SSRC and the timestamp: if the slot has these, and no packet was handled
// with its key, it is about the same packet. If only the timestamp differs, the slot is about a packet with the same
// sequence number that comes later, or has never come, and stays. Until user space has handled that packet, the kernel
// leaves others with its sequence number and SSRC to user space, whatever their keys are.
#pragma once

#include "maps.h"
#include "rtp_frames.h"
#include "udp_path.h"

enum rtp_limits {
	MAX_RTP_MEDIAS = 1024, // the loader replaces it
	MAX_PLAYERS = 256, // of a media, that the kernel serves
	PLAYER_WORDS = MAX_PLAYERS / 64,
	RTP_SLOTS = 1024, // packets that user space may be behind
	MAX_RTP = 1472, // bytes of a packet
};

// A player of a media. User space changes all but active while active is 0 and no program can have seen it otherwise.
struct rtp_player {
	struct udp_path udp;
	u16 sequence; // added to the sequence number
	u32 timestamp; // and to the timestamp
	__be32 ssrc;
	u32 active;
	u32 mtu; // largest IP packet
	u64 pad;
	struct rtp_flow flow; // user space changes it at any time
	u64 packets, octets; // that the kernel has sent, as sender reports count them (RFC 3550 §6.4.1)
};
_Static_assert(sizeof(struct rtp_player) == 104, "rtp_player has no padding");

// A packet that user space may not have handled yet.
struct rtp_slot {
	u64 key; // number of the packet << 16 | generation of its SSRC; a publisher cannot choose another one
	u32 timestamp; // of the packet, if a program has claimed it
	u32 taken; // user space has handled the packet with that key
	u32 users; // program runs that may set and clear bits
	u32 pad;
	u64 players[PLAYER_WORDS]; // that have the packet
};

// Keys that no packet has.
enum rtp_mark {
	RTP_TAKING = 1 << 16, // the rest of the slot is being changed
};

// A media of a publisher.
struct rtp_media {
	u64 source; // generation of the SSRC << 32 | SSRC; 0: it is not known
	u32 handled; // number of the packet that user space has handled last: its sequence number, with 16 bits before it
	u32 paused; // user space takes no packets
	u32 payload_type;
	u32 count; // players from here on are inactive
	struct udp_path udp; // the publisher's
	u16 share; // that its jobs are of, see shared/share.h
	u32 index; // of the media
	u32 codec; // enum rtp_codec
	struct rtp_frames frames;
	struct rtp_player players[MAX_PLAYERS];
	struct rtp_slot slots[RTP_SLOTS];
};
_Static_assert(sizeof(struct rtp_media) ==
		       72 + sizeof(struct rtp_frames) + MAX_PLAYERS * 104 + RTP_SLOTS * 56,
	       "rtp_media has no padding");

LENT(rtp_medias, MAX_RTP_MEDIAS, 1, struct rtp_media); // by index
HASH(rtp_sources, MAX_RTP_MEDIAS, struct endpoint, u32); // indices of medias, by where they come from

// find_media returns the media with packets from an endpoint, or 0.
static __noinline struct rtp_media *find_media(const struct endpoint *from)
{
	u32 *index = bpf_map_lookup_elem(&rtp_sources, from), zero = 0;
	void *media = index ? bpf_map_lookup_elem(&rtp_medias, index) : 0;

	return media ? bpf_map_lookup_elem(media, &zero) : 0;
}

GO_TYPE(enum, rtp_limits);
GO_TYPE(enum, rtp_mark);
