// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// TCP headers (RFC 9293) and the timestamps option (RFC 7323).
#pragma once

#include "ip.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

#define TCP_OPTION_END 0
#define TCP_OPTION_NOP 1
#define TCP_OPTION_TIMESTAMPS 8
#define TCP_OPTION_TIMESTAMPS_LENGTH 10
#define TCP_OPTIONS_MAX 40

struct tcp_header {
	u16 source;
	u16 destination;
	u32 sequence;
	u32 acknowledgment;
	u8 offset; // of the payload, in words, in the upper half
	u8 flags;
	u16 window;
	u16 checksum;
	u16 urgent;
};

// The layout of RFC 7323 appendix A, which nearly every segment has: two NOPs, then the timestamps.
struct tcp_timestamps {
	u32 head;
	u32 value;
	u32 echo;
};
#define TCP_TIMESTAMPS_HEAD bpf_htonl(0x0101080a)

struct segment {
	u32 start; // sequence number
	u32 end; // sequence number after payload, SYN and FIN
	u32 ack;
	u32 tsval;
	u32 tsecr;
	u32 at; // of the payload
	u8 flags;
	bool timestamps;
};

// after compares sequence numbers or timestamps, which wrap (RFC 7323 §5.2).
INLINE bool after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

// Options on their way through tcp_walk_options. The walk's position is kept here, in volatile memory, where the
// verifier does not track values: it then verifies one loop body, not one for each position.
struct tcp_options {
	u8 bytes[64]; // up to TCP_OPTIONS_MAX are used; the rest allows reading an option before its length is checked
	volatile u32 at;
	u32 length;
};

// tcp_option_length returns the length of the option at i, or 0 if it is malformed.
INLINE u32 tcp_option_length(const struct tcp_options *o, u32 i)
{
	u32 n = o->bytes[i + 1];

	if (o->bytes[i] == TCP_OPTION_NOP)
		return 1;
	return i + 1 >= o->length || n < 2 || i + n > o->length ? 0 : n;
}

// tcp_walk_options looks for the timestamps among options in any order.
GLOBAL enum outcome tcp_walk_options(struct tcp_options *o, struct segment *t)
{
	u32 i, n;

	if (!o || !t)
		return OUTCOME_TCP_MALFORMED;
	for (int count = 0; count < TCP_OPTIONS_MAX; count++) {
		i = o->at;
		if (i >= o->length || i >= TCP_OPTIONS_MAX || o->bytes[i] == TCP_OPTION_END)
			return OUTCOME_CONTINUE;
		n = tcp_option_length(o, i);
		if (!n)
			return OUTCOME_TCP_OPTIONS_MALFORMED;
		if (o->bytes[i] == TCP_OPTION_TIMESTAMPS && n == TCP_OPTION_TIMESTAMPS_LENGTH) {
			__builtin_memcpy(&t->tsval, o->bytes + i + 2, 4);
			__builtin_memcpy(&t->tsecr, o->bytes + i + 6, 4);
			t->timestamps = true;
			return OUTCOME_CONTINUE;
		}
		o->at = i + n;
	}
	return OUTCOME_CONTINUE;
}

INLINE enum outcome tcp_find_timestamps(const struct cursor *c, u32 at, u32 length, struct segment *t)
{
	struct tcp_options o = { .length = length };

	length &= sizeof(o.bytes) - 1;
	if (!length || !cursor_copy(c, at, o.bytes, length))
		return OUTCOME_TCP_MALFORMED;
	return tcp_walk_options(&o, t);
}

INLINE enum outcome tcp_parse_options(const struct cursor *c, u32 at, u32 length, struct segment *t)
{
	struct tcp_timestamps ts;
	enum outcome outcome;

	if (!length)
		return OUTCOME_CONTINUE;
	if (length >= sizeof(ts) && cursor_read(c, at, &ts, sizeof(ts)) && ts.head == TCP_TIMESTAMPS_HEAD) {
		t->timestamps = true;
		t->tsval = ts.value;
		t->tsecr = ts.echo;
		outcome = OUTCOME_CONTINUE;
	} else {
		outcome = tcp_find_timestamps(c, at, length, t);
	}
	t->tsval = bpf_ntohl(t->tsval);
	t->tsecr = bpf_ntohl(t->tsecr);
	return outcome;
}

INLINE enum outcome tcp_parse(struct cursor *c, struct packet *p, struct segment *t)
{
	struct tcp_header h;
	enum outcome outcome;
	u32 header;

	if (p->length < sizeof(h) || !cursor_read(c, p->at, &h, sizeof(h)))
		return OUTCOME_TCP_MALFORMED;
	header = (h.offset >> 4) * 4;
	if (header < sizeof(h) || header > p->length)
		return OUTCOME_TCP_MALFORMED;
	p->payload = p->length - header;
	packet_key(p, h.source, h.destination);
	t->at = p->at + header;
	t->flags = h.flags;
	t->start = bpf_ntohl(h.sequence);
	t->end = t->start + p->payload + !!(h.flags & TCP_SYN) + !!(h.flags & TCP_FIN);
	t->ack = bpf_ntohl(h.acknowledgment);
	outcome = tcp_parse_options(c, p->at + sizeof(h), header - sizeof(h), t);
	p->class = t->timestamps ? TRAFFIC_TCP_TIMESTAMPS : TRAFFIC_TCP_PLAIN;
	return outcome;
}
