// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Short names for the types that every header uses, and the few kernel types that the iterators need.
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;

#define INLINE static __always_inline
// A global function is verified once, by itself, for whatever arguments: that keeps the number of paths small. Pointers
// may be NULL as far as the verifier knows.
#define GLOBAL __noinline
#define true 1
#define false 0

#define SECOND 1000000000ull
#define MILLISECOND 1000000ull

// The part of the kernel's iterator context that is used here; CO-RE finds the fields.
struct bpf_iter__bpf_map_elem {
	void *key;
	void *value;
} __attribute__((preserve_access_index));
