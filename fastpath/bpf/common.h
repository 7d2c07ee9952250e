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

struct scratch {
	u8 buf[2 * HALF];
	u32 state[16]; // ChaCha20 input block
	u32 r[4], s[4]; // one-time Poly1305 key; the first five bytes of r are also the header protection mask
	u64 tag[2];
};
_Static_assert(sizeof(struct scratch) == 2 * HALF + 64 + 32 + 16, "scratch has no padding");

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
