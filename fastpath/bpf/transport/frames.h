// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The frames of an opened packet (RFC 9000 §12.4, §19). The walk collects the STREAM and DATAGRAM frames; all other
// frames are for user space, which gets the whole packet anyway.
#pragma once

#include "varint.h"

enum walk_result {
	WALK_DONE, // every frame is understood
	WALK_STOPPED, // a frame of another kind, or one more than fits: the frames before it are good
	WALK_MALFORMED, // a frame reaches beyond the packet: none of them can be trusted
};

#define FRAME_PADDING 0x00
#define FRAME_ACK 0x02 // and 0x03 with ECN counts
#define FRAME_STREAM 0x08 // to 0x0f
#define STREAM_FIN 0x01
#define STREAM_LEN 0x02
#define STREAM_OFF 0x04
#define UNIDIRECTIONAL 2 // of a stream id (RFC 9000 §2.1)
#define FRAME_NEW_CONNECTION_ID 0x18
#define FRAME_PATH_CHALLENGE 0x1a // and 0x1b PATH_RESPONSE
#define FRAME_DATAGRAM 0x30 // and 0x31 with a length
#define FRAME_ACK_FREQUENCY 0xaf // a varint of two bytes (draft-ietf-quic-ack-frequency-12)
#define DATAGRAM_LEN 0x01

#define MAX_ACK_RANGES 256 // more than a peer keeps; bounds the walk

// Frames that consist of varints only, by type: the number of varints plus one.
#define MAX_VARINTS 5
static const u8 varint_frames[64] = {
	[0x01] = 1, // PING
	[0x04] = 4, // RESET_STREAM
	[0x05] = 3, // STOP_SENDING
	[0x10] = 2, [0x11] = 3, [0x12] = 2, [0x13] = 2, // MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS
	[0x14] = 2, [0x15] = 3, [0x16] = 2, [0x17] = 2, // DATA_BLOCKED, STREAM_DATA_BLOCKED, STREAMS_BLOCKED
	[0x19] = 2, // RETIRE_CONNECTION_ID
	[0x1e] = 1, // HANDSHAKE_DONE
	[0x1f] = 1, // IMMEDIATE_ACK
	[0x24] = 5, // RESET_STREAM_AT
};

struct walk {
	struct scratch *c;
	u32 pos, end;
	u32 skip; // varints of an ACK frame that are still to be skipped
	enum walk_result result;
};

#define ACK_VARINTS_PER_STEP 8

INLINE long walk_ack_ranges(struct walk *w)
{
	u32 pos = w->pos, n = w->skip;

#pragma unroll
	for (u32 k = 0; k < ACK_VARINTS_PER_STEP; k++) {
		u32 len = 1u << (*AT(w->c, pos) >> 6);
		pos += k < n ? len : 0;
	}
	w->skip = n > ACK_VARINTS_PER_STEP ? n - ACK_VARINTS_PER_STEP : 0;
	w->pos = pos;
	return 0;
}

// walk_padding takes one byte, and up to 32 more while they are zero: padding comes in hundreds.
INLINE long walk_padding(struct walk *w)
{
	u32 pos = w->pos + 1;

#pragma unroll
	for (int k = 0; k < 4; k++)
		if (pos + 8 <= w->end && *(u64 *)AT(w->c, pos) == 0)
			pos += 8;
	w->pos = pos;
	return 0;
}

INLINE long walk_ack(struct walk *w, u32 pos, u32 type)
{
	skip_varint(w->c, &pos); // Largest Acknowledged
	skip_varint(w->c, &pos); // ACK Delay
	u64 ranges = read_varint(w->c, &pos);
	skip_varint(w->c, &pos); // First ACK Range
	if (ranges > MAX_ACK_RANGES) {
		w->result = WALK_STOPPED;
		return 1;
	}
	w->skip = 2 * ranges + (type & 1 ? 3 : 0);
	w->pos = pos;
	return 0;
}

INLINE long walk_media(struct walk *w, u32 pos, u32 type)
{
	struct scratch *c = w->c;
	int datagram = type >= FRAME_DATAGRAM;
	u32 index = c->frame_count;
	u64 id = 0, offset = 0;

	if (index >= MAX_FRAMES) {
		w->result = WALK_STOPPED;
		return 1;
	}
	if (!datagram) {
		id = read_varint(c, &pos);
		if (type & STREAM_OFF)
			offset = read_varint(c, &pos);
	}
	u64 len = w->end - pos;
	if (datagram ? type & DATAGRAM_LEN : type & STREAM_LEN)
		len = read_varint(c, &pos);
	if (pos > w->end || len > w->end - pos) {
		w->result = WALK_MALFORMED;
		return 1;
	}
	struct frame *f = &c->frames[index];
	f->stream_id = id;
	f->offset = offset;
	f->at = pos;
	f->len = len;
	f->type = type;
	f->fin = datagram ? 0 : type & STREAM_FIN;
	c->frame_count = index + 1;
	w->pos = pos + len;
	return 0;
}

INLINE long walk_varints(struct walk *w, u32 pos, u32 type)
{
	u32 n = type < 0x40 ? varint_frames[type & 0x3f] : 0;

	if (type == 0x40 && *AT(w->c, pos) == FRAME_ACK_FREQUENCY) {
		n = MAX_VARINTS;
		pos++;
	}
	if (!n) {
		w->result = WALK_STOPPED;
		return 1;
	}
#pragma unroll
	for (u32 k = 1; k < MAX_VARINTS; k++) {
		u32 len = 1u << (*AT(w->c, pos) >> 6);
		pos += k < n ? len : 0;
	}
	w->pos = pos;
	return 0;
}

// walk_step takes one frame, or a part of a long one.
static long walk_step(u32 i, struct walk *w)
{
	u32 pos = w->pos;

	if (pos >= w->end || pos >= HALF)
		return 1;
	if (w->skip)
		return walk_ack_ranges(w);
	u32 type = *AT(w->c, pos);
	pos++;
	if (type == FRAME_PADDING)
		return walk_padding(w);
	if ((type & ~1u) == FRAME_ACK)
		return walk_ack(w, pos, type);
	if ((type & ~7u) == FRAME_STREAM || (type & ~1u) == FRAME_DATAGRAM)
		return walk_media(w, pos, type);
	if (type == FRAME_NEW_CONNECTION_ID) {
		skip_varint(w->c, &pos);
		skip_varint(w->c, &pos);
		w->pos = pos + 1 + *AT(w->c, pos) + 16; // length, connection ID, stateless reset token
		return 0;
	}
	if ((type & ~1u) == FRAME_PATH_CHALLENGE) {
		w->pos = pos + 8;
		return 0;
	}
	return walk_varints(w, pos, type);
}

#define MAX_WALK_STEPS 512

// walk_frames fills frames from the plaintext of len bytes.
GLOBAL int walk_frames(struct scratch *c)
{
	if (!c || c->len > MAX_PAYLOAD)
		return WALK_MALFORMED;
	// The verifier walks through the callback again until it has seen all states that it can begin in. A position that
	// begins as a constant is another state after each step. Through memory it is an unknown number from the start, and
	// the second look finds nothing new.
	*(volatile u32 *)&c->start = IN + PAYLOAD_AT;
	struct walk w = {
		.c = c,
		.pos = *(volatile u32 *)&c->start,
		.end = IN + PAYLOAD_AT + c->len,
		.result = WALK_DONE,
	};

	c->frame_count = 0;
	bpf_loop(MAX_WALK_STEPS, walk_step, &w, 0);
	if (w.result == WALK_DONE && (w.pos != w.end || w.skip))
		return w.pos > w.end || w.skip ? WALK_MALFORMED : WALK_STOPPED;
	return w.result;
}

// stream_header_len is the length of the header of a STREAM frame that ends with its packet: type, id in four or eight
// bytes, offset unless it is 0.
INLINE u32 stream_header_len(u64 id, u64 offset)
{
	return 1 + (id < 1 << 30 ? 4 : 8) + (!offset ? 0 : offset < 1 << 30 ? 4 : 8);
}

// write_stream_header writes this header at p.
INLINE void write_stream_header(u8 *p, u64 id, u64 offset, u32 fin)
{
	*p++ = FRAME_STREAM | (offset ? STREAM_OFF : 0) | (fin ? STREAM_FIN : 0);
	if (id < 1 << 30) {
		*(u32 *)p = bpf_htonl(2u << 30 | (u32)id);
		p += 4;
	} else {
		*(u64 *)p = __builtin_bswap64(3ULL << 62 | id);
		p += 8;
	}
	if (!offset)
		return;
	if (offset < 1 << 30)
		*(u32 *)p = bpf_htonl(2u << 30 | (u32)offset);
	else
		*(u64 *)p = __builtin_bswap64(3ULL << 62 | offset);
}
