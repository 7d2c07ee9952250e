// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The headers in front of media, as they arrive: SUBGROUP_HEADER (draft-18 §11.4.2) and OBJECT_DATAGRAM
// (§11.3.1), behind the WebTransport framing if the session has it.
#pragma once

#include "../transport/frames.h"
#include "vi64.h"

// Bits of the header types.
#define SUBGROUP_ID_MODE 0x06
#define SUBGROUP_ID_FIRST 0x02 // it is the first object's id
#define SUBGROUP_ID_PRESENT 0x04
#define SUBGROUP_ID_RESERVED 0x06
#define DEFAULT_PRIORITY_SUBGROUP 0x20
#define SUBGROUP_FLAGS 0x59 // the same on all hops: with properties, end of group, first object
#define DATAGRAM_PROPERTIES 0x01
#define DATAGRAM_END_OF_GROUP 0x02
#define DATAGRAM_ZERO_OBJECT_ID 0x04
#define DATAGRAM_DEFAULT_PRIORITY 0x08
#define DATAGRAM_STATUS 0x20

// The first bytes of a unidirectional WebTransport stream: stream type 0x54 as a two-byte varint, then the session ID.
#define WT_UNI_STREAM_0 0x40
#define WT_UNI_STREAM_1 0x54

// parse_subgroup_header reads the header at the beginning of a stream. len of the header becomes 0 if the frame is not
// at the beginning, or the data is something else, or ends within the header: then the stream is not forwarded from
// here. A control message on a request stream can look like a header, so only unidirectional streams count.
GLOBAL int parse_subgroup_header(struct scratch *c)
{
	if (!c || c->frame >= MAX_FRAMES)
		return -1;
	const struct frame *f = &c->frames[c->frame];
	struct media_header *h = &c->header;
	h->len = 0;
	if (f->offset || !(f->stream_id & UNIDIRECTIONAL))
		return 0;
	u32 pos = f->at, end = f->at + f->len;

	if (AT(c, pos)[0] == WT_UNI_STREAM_0 && AT(c, pos)[1] == WT_UNI_STREAM_1) {
		pos += 2;
		skip_varint(c, &pos);
	}
	u32 type = *AT(c, pos);
	pos++;
	if ((type & 0x90) != 0x10 || (type & SUBGROUP_ID_MODE) == SUBGROUP_ID_RESERVED)
		return 0;
	h->alias = read_vi64(c, &pos);
	h->group = read_vi64(c, &pos);
	u32 after = pos;
	u64 id = read_vi64(c, &after);
	int present = (type & SUBGROUP_ID_MODE) == SUBGROUP_ID_PRESENT;
	h->subgroup = present ? id : 0;
	pos = present ? after : pos;
	h->priority = *AT(c, pos);
	pos += type & DEFAULT_PRIORITY_SUBGROUP ? 0 : 1;
	u32 header_end = pos;
	if ((type & SUBGROUP_ID_MODE) == SUBGROUP_ID_FIRST)
		h->subgroup = read_vi64(c, &pos);
	if (pos > end)
		return 0;
	h->type = type;
	h->len = header_end - f->at;
	return 0;
}

// parse_object_datagram reads the header of a datagram up to the priority, the part that each hop writes anew. len of
// the header becomes 0 if there is no payload to forward: the datagram is something else, has a status, or ends too
// early.
GLOBAL int parse_object_datagram(struct scratch *c, u32 webtransport)
{
	if (!c || c->frame >= MAX_FRAMES)
		return -1;
	const struct frame *f = &c->frames[c->frame];
	struct media_header *h = &c->header;
	h->len = 0;
	u32 pos = f->at, end = f->at + f->len;

	if (webtransport)
		skip_varint(c, &pos); // quarter stream ID: there is one session on a connection
	u32 type = *AT(c, pos);
	pos++;
	if (type & (0xd0 | DATAGRAM_STATUS))
		return 0;
	h->alias = read_vi64(c, &pos);
	h->group = read_vi64(c, &pos);
	u32 after = pos;
	u64 id = read_vi64(c, &after);
	int zero = type & DATAGRAM_ZERO_OBJECT_ID;
	h->object = zero ? 0 : id;
	pos = zero ? pos : after;
	h->priority = *AT(c, pos);
	pos += type & DATAGRAM_DEFAULT_PRIORITY ? 0 : 1;
	if (pos > end)
		return 0;
	u32 payload = pos;
	if (type & DATAGRAM_PROPERTIES) {
		u64 len = read_vi64(c, &payload);
		if (!len || payload > end || len > end - payload)
			return 0;
		payload += len;
	}
	if (payload >= end) // an empty object is sent with a status
		return 0;
	h->type = type;
	h->len = pos - f->at;
	return 0;
}
