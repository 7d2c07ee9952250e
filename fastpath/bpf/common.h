// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Types and the per-CPU scratch that every program of the fast path uses.
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define INLINE static __always_inline

// Verdicts of TCX programs (kernel 6.6), which older headers lack: on to the next program, and drop.
#define VERDICT_NEXT -1
#define VERDICT_DROP 2

// A packet in the scratch is a run of whole 16-byte blocks, so that Poly1305 never sees a partial one:
//
//	half + PAYLOAD_AT - 32 or - 16   associated data, padded with zeros
//	half + PAYLOAD_AT                payload, padded; the tag, or the length block while the MAC is computed, follows
//
// IN holds what arrived (opened in place), OUT what leaves.
#define HALF 2048
#define IN 0
#define OUT HALF
#define PAYLOAD_AT 128
#define MAX_PAYLOAD 1500 // of one packet, without its tag
#define TAG_LEN 16
#define MAX_AAD 32 // 1 + 20 bytes of connection ID + 4 of packet number, rounded up to whole blocks

#define MAX_SUBSCRIBERS 1024

// A packet number with the generation of its key.
#define GENERATION_SHIFT 62
#define NUMBER_MASK ((1ULL << GENERATION_SHIFT) - 1)

// What a STREAM or DATAGRAM frame carries, and the MoQT header that its data begins with (draft-18 §11).
struct frame {
	u64 stream_id; // STREAM only
	u64 offset; // of the data in the stream; 0 for DATAGRAM
	u64 alias, group, subgroup, object; // of the MoQT header
	u32 at; // where the data lies in buf
	u32 len; // of the data
	u32 header_len; // bytes of the data that each hop writes anew, see moqt.h; 0 when it begins with no media header
	u8 type; // QUIC frame type (RFC 9000 §19, RFC 9221 §4)
	u8 fin;
	u8 header_type; // MoQT type of the header
	u8 priority; // publisher priority, when header_type says that it is present
};
_Static_assert(sizeof(struct frame) == 64, "frame is read by tests");

// What a copy for one subscriber is going to send. It lies here rather than on the stack, which is the tight resource.
struct claim {
	u64 from, to; // upstream offsets
	u64 number, generation;
	u32 subscriber;
	u32 slot; // of the stream's state
	u32 data_len; // stream bytes in the packet: prefix and body
	u32 packet_len; // of the QUIC packet
	u32 fin;
	u32 opened; // the stream is new: still in this program's hands, and its prefix goes first
};

#define MAX_FRAMES 8 // media frames that are taken from one packet

struct scratch {
	u8 buf[2 * HALF];
	u32 state[16]; // ChaCha20 input block
	u32 r[4], s[4]; // one-time Poly1305 key; the first five bytes of r are also the header protection mask
	u64 tag[2];
	u64 pn; // of the packet that was opened
	u32 len; // of its payload
	u32 key_phase;
	u32 frame_count;
	u32 start; // where the frame walk begins, see frames.h
	struct frame frames[MAX_FRAMES];
	// The packet that lies sealed in OUT: its headers end at head, its payload and tag are tail bytes. armed says that
	// the next packet that client_egress sees is the clone that they replace.
	u32 head, tail;
	u32 armed;
	u32 aad_len;
	u32 checksum_start; // of the incoming packet, if the device is to complete its checksum; else 0
	u32 work; // that the incoming packet has caused, see fanout.h
	struct claim claim;
	u64 stream_key[3]; // a struct downstream_key
	u32 frame; // of frames, that is being forwarded
	u32 upstream; // that it came from
};
_Static_assert(sizeof(struct scratch) == 2 * HALF + 64 + 32 + 16 + 24 + MAX_FRAMES * 64 + 24 + 56 + 32, "scratch has no padding");

// LENT has an element only for the connections that need one: user space puts an array there, which it maps, and takes it
// away when no program can use that any more.
#define LENT(name, count, len, type_) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); \
		__uint(max_entries, count); \
		__type(key, u32); \
		__array(values, struct { \
			__uint(type, BPF_MAP_TYPE_ARRAY); \
			__uint(map_flags, BPF_F_MMAPABLE); \
			__uint(max_entries, len); \
			__uint(key_size, sizeof(u32)); \
			__uint(value_size, sizeof(type_)); \
		}); \
	} name SEC(".maps")

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
