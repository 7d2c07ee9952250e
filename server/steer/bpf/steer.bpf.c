// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Chooses the socket that gets a datagram, among the sockets of several processes that are bound to one UDP port.
//go:build ignore

#include "steer.h"

#define UDP_HEADER_LEN 8
#define LONG_HEADER 0x80

// What has to be read of a packet (RFC 9000 §17.2, §17.3): a short header has the connection ID behind its first byte,
// a long one behind the version and a length.
#define FRONT_LEN 9
#define SHORT_ID_AT 1
#define LONG_ID_LEN_AT 5
#define LONG_ID_AT 6

INLINE u32 socket_at(u32 number, u32 socket) { return number * MAX_SOCKETS + socket; }

// named_socket finds the socket that a packet's Destination Connection ID names.
INLINE int named_socket(struct sk_reuseport_md *ctx, u32 *at)
{
	u8 front[FRONT_LEN];

	if (bpf_skb_load_bytes(ctx, UDP_HEADER_LEN, front, sizeof(front)))
		return -1;
	int is_long = front[0] & LONG_HEADER;
	if (is_long && front[LONG_ID_LEN_AT] != CONNECTION_ID_LEN)
		return -1;
	u8 first = is_long ? front[LONG_ID_AT] : front[SHORT_ID_AT];
	u8 second = is_long ? front[LONG_ID_AT + 1] : front[SHORT_ID_AT + 1];
	u8 third = is_long ? front[LONG_ID_AT + 2] : front[SHORT_ID_AT + 2];
	*at = socket_at(first, third % MAX_SOCKETS);
	return (first ^ second) == 0xff ? 0 : -1;
}

// socket_of_newest chooses a socket of the newest process. It depends on the addresses only, so that all packets of a
// client come to one socket before the client knows a connection ID of that socket. Nobody else can compute the hash:
// the kernel keeps a secret for it.
INLINE int socket_of_newest(struct sk_reuseport_md *ctx, u32 *at)
{
	u32 zero = 0;
	u32 *number = bpf_map_lookup_elem(&newest, &zero);
	struct process *p = number ? bpf_map_lookup_elem(&processes, number) : 0;

	if (!p)
		return -1;
	*at = socket_at(*number, (u64)ctx->hash * p->sockets >> 32);
	return 0;
}

INLINE int give_to(struct sk_reuseport_md *ctx, u32 at) { return bpf_sk_select_reuseport(ctx, &sockets, &at, 0); }

// count_arrival counts whether a datagram has to go to another CPU.
INLINE void count_arrival(u32 at)
{
	u32 socket = at % MAX_SOCKETS;
	u64 *reader = bpf_map_lookup_elem(&readers, &at);
	struct arrivals *a = bpf_map_lookup_elem(&arrived, &socket);

	if (!reader || !*reader || !a)
		return;
	if (*reader == bpf_get_smp_processor_id() + 1)
		a->same_cpu++;
	else
		a->other_cpu++;
}

INLINE enum steer_verdict choose(struct sk_reuseport_md *ctx)
{
	enum steer_verdict why = STEER_NEWEST;
	u32 at = 0;

	if (!named_socket(ctx, &at)) {
		if (!give_to(ctx, at)) {
			count_arrival(at);
			return STEER_NAMED;
		}
		why = STEER_GONE;
	}
	if (socket_of_newest(ctx, &at) || give_to(ctx, at))
		return STEER_ANY; // without a choice of the program, the kernel spreads datagrams by a hash
	count_arrival(at);
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
