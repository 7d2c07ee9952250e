// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Units of time, and the few kernel types that the iterators need.
#pragma once

#include <sluice/types.h>

#define SECOND 1000000000ull
#define MILLISECOND 1000000ull

// The part of the kernel's iterator context that is used here; CO-RE finds the fields.
struct bpf_iter__bpf_map_elem {
	void *key;
	void *value;
} __attribute__((preserve_access_index));
