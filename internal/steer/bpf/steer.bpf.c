// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Chooses the socket that gets a datagram, among the sockets of several processes that are bound to one UDP port.
//go:build ignore

#include "steer.h"

#define UDP_HEADER_LEN 8
#define LONG_HEADER 0x80

// What has to be read of a packet (RFC 9000 §17.2, §17.3): a short header has the connection ID behind its first byte,
// a long one behind the version and a length.
#define FRONT_LEN 8
#define SHORT_ID_AT 1
#define LONG_ID_LEN_AT 5
#define LONG_ID_AT 6

// named_process finds the process that a packet's Destination Connection ID names.
INLINE int named_process(struct sk_reuseport_md *ctx, u32 *number)
{
	u8 front[FRONT_LEN];

	if (bpf_skb_load_bytes(ctx, UDP_HEADER_LEN, front, sizeof(front)))
		return -1;
	int is_long = front[0] & LONG_HEADER;
	if (is_long && front[LONG_ID_LEN_AT] != CONNECTION_ID_LEN)
		return -1;
	u8 first = is_long ? front[LONG_ID_AT] : front[SHORT_ID_AT];
	u8 second = is_long ? front[LONG_ID_AT + 1] : front[SHORT_ID_AT + 1];
	*number = first;
	return (first ^ second) == 0xff ? 0 : -1;
}

INLINE int give_to(struct sk_reuseport_md *ctx, u32 number)
{
	return bpf_sk_select_reuseport(ctx, &sockets, &number, 0);
}

INLINE enum steer_verdict choose(struct sk_reuseport_md *ctx)
{
	enum steer_verdict why = STEER_NEWEST;
	u32 number = 0, zero = 0;

	if (!named_process(ctx, &number)) {
		if (!give_to(ctx, number))
			return STEER_NAMED;
		why = STEER_GONE;
	}
	u32 *last = bpf_map_lookup_elem(&newest, &zero);
	if (!last || give_to(ctx, *last))
		return STEER_ANY; // without a choice of the program, the kernel spreads datagrams by a hash
	return why;
}

SEC("sk_reuseport") int steer(struct sk_reuseport_md *ctx)
{
	u32 why = choose(ctx);
	u64 *n = bpf_map_lookup_elem(&verdicts, &why);

	if (n)
		(*n)++;
	return SK_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
