// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What the BPF programs of all packages use: short names of types, and the macros that say how code reaches the kernel
// and how types reach Go.
#pragma once

#include <stdbool.h>
#include <stddef.h>
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

#define INLINE static __always_inline

// A global function is verified once, by itself, for whatever arguments, so its callers cost the verifier nothing. The
// price: its pointers may be null as far as the verifier knows, and what it returns is any number.
#define GLOBAL __noinline

// The verdicts of classifiers. TCX (Linux 6.6) and clsact give them the same numbers, which the headers of older
// systems do not have under one name.
enum verdict {
	VERDICT_NEXT = -1, // on to the next program
	VERDICT_DROP = 2,
	VERDICT_REDIRECT = 7, // what bpf_redirect returns
};

// GO_TYPE makes a type known to bpf2go. clang describes in BTF only the types of functions, variables and maps: the
// values of an enum that meets nothing but integers, or of a struct that only lies in memory, would not reach Go. The
// pointer is in a section that no loader reads, so it costs nothing at run time.
#define GO_TYPE(kind, name) kind name *go_type_##name SEC(".go_types") __attribute__((used))

// clang gives the structs that __sk_buff only points to their place in BTF by their addresses in its own memory, which
// depend on the folder that it runs in. Described whole, they have one place, and the object is the same everywhere.
GO_TYPE(struct, bpf_flow_keys);
GO_TYPE(struct, bpf_sock);
