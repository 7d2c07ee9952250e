// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The scratch: the memory in which a packet is opened, and copies of it are built.
//
// The stack of a BPF program has 512 bytes, for the whole chain of its functions and callbacks, and packets do not fit
// there. So everything that is larger than a few words lies in an element of a per-CPU array, and functions hand each
// other a pointer to it. That is safe because programs run with softirqs disabled: only one of ours runs on a CPU at a
// time. There is one exception, on purpose: bpf_clone_redirect runs client_egress while server_ingress waits for it,
// and the scratch tells client_egress what to send.
#pragma once

#include <sluice/types.h>

// A packet in the scratch is a run of whole 16-byte blocks, so that Poly1305 never sees a partial one:
//
//	half + PAYLOAD_AT - 32 or - 16   associated data, padded with zeros
//	half + PAYLOAD_AT                payload, padded; the tag, or the length block while the MAC is computed, follows
//
// IN holds the packet that arrived (opened in place), OUT the copy that leaves.
enum scratch_layout {
	HALF = 2048,
	IN = 0,
	OUT = HALF,
	PAYLOAD_AT = 128,
	MAX_PAYLOAD = 1500, // of one packet, without its tag
	TAG_LEN = 16,
	MAX_AAD = 32, // 1 + 20 bytes of connection ID + 4 of packet number, rounded up to whole blocks
	MAX_FRAMES = 8, // STREAM and DATAGRAM frames that are taken from one packet
};

// aad_at is where associated data of len bytes begins, so that its padding ends where the payload begins.
INLINE u32 aad_at(u32 half, u32 len)
{
	return half + PAYLOAD_AT - (len > 16 ? 32 : 16);
}

// A STREAM or DATAGRAM frame (RFC 9000 §19.8, RFC 9221 §4), as transport/frames.h finds it.
struct frame {
	u64 stream_id; // STREAM only
	u64 offset; // of the data in the stream; 0 for DATAGRAM
	u32 at; // where the data lies in buf
	u32 len; // of the data
	u8 type;
	u8 fin;
	u8 pad[6];
};
_Static_assert(sizeof(struct frame) == 32, "frame is read by tests");

// The header at the beginning of a frame's data, as application/moqt.h reads it.
struct media_header {
	u64 alias, group, subgroup, object;
	u32 len; // of the part that each hop writes anew; 0 if the data begins with no media header
	u8 type;
	u8 priority; // Publisher Priority, if type says that it is present
	u8 pad[2];
};
_Static_assert(sizeof(struct media_header) == 40, "media_header is read by tests");

// The claim of a copy for one subscriber, see claim.h.
struct claim {
	u64 from, to; // log offsets
	u64 number, generation; // of the packet and of its key
	u32 subscriber; // index of the connection
	u32 slot; // of the stream's state
	u32 level; // of the stream or the object
	u32 data_len; // stream bytes in the packet: prefix and body
	u32 packet_len; // of the QUIC packet
	u32 prefix_len;
	u16 fin;
	u16 ecn; // of the packet's IP header
	u32 opened; // this program has opened the stream: no other sender uses it yet, and its prefix goes first
};
_Static_assert(sizeof(struct claim) == 64, "claim has no padding");

// Poly1305 while it runs, see transport/poly1305.h.
struct poly {
	u64 h0, h1, h2, h3; // the accumulator
	u64 r0, r1, r2, r3; // the multiplier
	u64 s1, s2, s3; // 5/4 of it
	u64 pad;
};

struct scratch {
	u8 buf[2 * HALF];
	u32 state[16]; // ChaCha20 input block
	u32 r[4], s[4]; // one-time Poly1305 key; the first five bytes of r are also the header protection mask
	u64 tag[2];
	struct poly poly;
	u64 pn; // of the packet that was opened
	u32 len; // of its payload
	u32 frame_count;
	u32 start; // where the frame walk begins, see frames.h
	u32 opens; // this run has registered the frame's subgroup, and no other stream brought it first: it opens streams
	struct frame frames[MAX_FRAMES];
	u32 frame; // of frames, that is being forwarded
	u32 publisher; // index of the connection that the packet came on
	struct media_header header; // of that frame
	// The copy that lies in OUT: its headers end at head, its payload (and tag) are tail bytes. Without a tail, the
	// copy has what follows the head in the clone. armed: the next packet that client_egress sees is the clone that
	// the copy replaces.
	u32 head, tail;
	u32 armed;
	u32 aad_len;
	u32 checksum_start; // of the incoming packet, if the device is to complete its checksum; else 0
	u32 budget; // work that this run may still do, see fanout/budget.h
	struct claim claim;
	u64 stream_key[3]; // a struct downstream_key
	u64 list_version; // of the list of subscriptions of
	u32 track; // this track, to which the frame is offered
	__be16 vlan_proto; // of the copy's VLAN tag; 0: it has none
	u16 vlan_tci;
	u64 group; // of the frame
	u64 arrived; // when the packet that was opened came; 0: delays are not measured
};
_Static_assert(sizeof(struct scratch) == 2 * HALF + 64 + 32 + 16 + 96 + 24 + MAX_FRAMES * 32 + 8 + 40 + 24 + 64 + 24 +
		       16 + 8 + 8,
	       "scratch has no padding");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

INLINE struct scratch *scratch_get(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}
