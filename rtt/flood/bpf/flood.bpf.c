// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// A generator of forwarded TCP traffic: the kernel's test run of XDP programs hands this program a frame, over and
// over, and the frame that the program makes of it passes through the network stack as if a device had received it.
//go:build ignore

#include <sluice/types.h>

#define FIRST_PORT 10000
// Number of packets with one timestamp, over all flows: a millisecond at a million packets per second.
#define TICK 1024

// Headers of an Ethernet frame with IPv4 and TCP, whose options are two NOPs and the timestamps.
struct headers {
	u8 ethernet_ip[34];
	u16 source;
	u16 destination;
	u32 sequence;
	u32 acknowledgment;
	u8 rest[12]; // of the header, and two NOPs, type and length of the option
	u32 tsval;
	u32 tsecr;
} __attribute__((packed));

struct headers templates[2]; // of data and of ACKs
volatile const u32 flows;
volatile const u32 payload; // of a segment with data

u32 packets[2]; // of each direction so far

// fill turns the frame into the next one of its direction, one flow after another: ACK number n acknowledges segment
// number n. It copies the template each time, because forwarding changes frames, and they are used again.
INLINE int fill(struct xdp_md *ctx, int back)
{
	struct headers *h = (void *)(long)ctx->data;
	u32 n = packets[back]++, tick = bpf_htonl(1 + n / TICK), end;
	u16 port;

	if ((void *)(h + 1) > (void *)(long)ctx->data_end || !flows)
		return XDP_DROP;
	port = bpf_htons(FIRST_PORT + n % flows);
	end = bpf_htonl((n / flows + back) * payload);
	*h = templates[back];
	if (back) {
		h->destination = port;
		h->acknowledgment = end;
		h->tsecr = tick;
	} else {
		h->source = port;
		h->sequence = end;
		h->tsval = tick;
	}
	return XDP_PASS;
}

SEC("xdp")
int forth(struct xdp_md *ctx)
{
	return fill(ctx, 0);
}

SEC("xdp")
int back(struct xdp_md *ctx)
{
	return fill(ctx, 1);
}

char _license[] SEC("license") = "Dual BSD/GPL";
