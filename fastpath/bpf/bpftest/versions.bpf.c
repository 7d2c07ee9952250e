// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// An entry for tests of values that are replaced while a program reads them: user space gives all words of a track's
// parts the same value, and this program looks at the first and the last for a while.
//go:build ignore

#include "../shared/state.h"

#define LOOKS 200

u64 found, mixtures;

SEC("tc") int test_version(struct __sk_buff *skb)
{
	u64 version = current_version(track_versions_at(0));
	struct track *t = find_subscriptions(0, version, 0);
	struct track *last = find_subscriptions(0, version, 1);

	if (!t)
		return 0;
	if (!last) {
		__sync_fetch_and_add(&mixtures, 1);
		return 0;
	}
	__sync_fetch_and_add(&found, 1);
	u64 first = SHARED(t->alias);
#pragma clang loop unroll(disable)
	for (int i = 0; i < LOOKS; i++) {
		if (SHARED(t->alias) == first && SHARED(last->subscriptions[PART_LEN - 1].end_group) == first)
			continue;
		__sync_fetch_and_add(&mixtures, 1);
		break;
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
