// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Entries for tests of the policy: user space sets a connection's state and what is about to go, and asks.
//go:build ignore

#include "../policy/policy.h"

struct conn_state connection;
struct claim copy;
u32 packet_len;
u64 now;

SEC("tc") int test_may_go(struct __sk_buff *skb)
{
	return may_go(&connection, &copy, packet_len);
}

SEC("tc") int test_take(struct __sk_buff *skb)
{
	take_from_bucket(&connection, packet_len, now);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
