// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The rule that the kernel and the media sender share (claim/admission.go explains the bucket; a test compares both).
#pragma once

#include "admission.h"

// admit is the function that an operator's program replaces, before the programs are loaded. It is global for that: it
// is verified by itself, and the compiler must not know its result.
GLOBAL int admit(struct admission *a)
{
	int answer = ADMIT;

	if (!a)
		return DECLINE;
	if (a->level > a->threshold)
		answer = DECLINE_PRIORITY;
	else if (a->bucket_cost && a->bucket_class && a->bucket <= (s64)(a->bucket_burst * (a->bucket_class - 1) / 4))
		answer = DECLINE_BUCKET;
	barrier_var(answer);
	return answer;
}
