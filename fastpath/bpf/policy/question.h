// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// How admit is asked.
#pragma once

#include "../shared/reason.h"
#include "admit.h"

const volatile u32 replaced = 0; // an operator's program has taken the place of admit

// The question is in memory, because the stack is full where it is asked.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct admission);
} questions SEC(".maps");

// new_question returns the memory for a question. All that admit looks at has to be set.
INLINE struct admission *new_question(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&questions, &zero);
}

// ask_admit returns COPY_SENT if the copy, object or frame may go.
INLINE enum reason ask_admit(struct admission *a)
{
	switch (admit(a)) {
	case ADMIT:
		return COPY_SENT;
	case DECLINE_PRIORITY:
		return COPY_PRIORITY;
	case DECLINE_BUCKET:
		return COPY_BUCKET;
	}
	return COPY_POLICY;
}
