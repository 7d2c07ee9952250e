// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Entries for tests of the policy: user space sets a connection's state and the next packet, and asks.
//go:build ignore

#include "../policy/policy.h"

struct conn_state connection;
struct claim copy;
u32 packet_len;
u64 now;

SEC("tc") int test_may_go(struct __sk_buff *skb)
{
	copy.packet_len = packet_len;
	return packet_len ? may_go(&connection, &copy) : ask_policy(&connection, &copy);
}

SEC("tc") int test_take(struct __sk_buff *skb)
{
	take_from_buckets(&connection, packet_len, now);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
