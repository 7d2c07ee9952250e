// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What depends on the frame of an RTP packet, by the headers in its payload. Package rtpframe has the same rule, and
// explains it; a test compares both. A unit that is cut off, or beyond the limits, counts as a part of some frame.
#pragma once

#include "../shared/rtp_frames.h"

enum rtp_kind_limits {
	MAX_UNITS = 8, // that are aggregated in a packet
	AV1_ENOUGH = 3, // bytes of an OBU and the length in front of it, which has one or two
};

// A payload, from some byte on.
struct rtp_payload {
	struct __sk_buff *skb;
	u32 at, end; // in the frame
	u32 codec, temporal;
};

INLINE u32 stronger(u32 a, u32 b) { return a > b ? a : b; }

INLINE u32 h264_kind(u8 header)
{
	u32 type = header & 31;

	if (type == 5 || type == 7) // IDR slice, sequence parameter set
		return RTP_KEY;
	if (type < 1 || type > 5)
		return RTP_PART;
	return header >> 5 & 3 ? RTP_DELTA : RTP_DISPOSABLE;
}

INLINE u32 h265_kind(struct rtp_payload *p, u32 type, u8 second)
{
	u32 id = second & 7;

	if ((type >= 16 && type <= 21) || type == 32 || type == 33) // random access picture, parameter sets
		return RTP_KEY;
	if (type > 31)
		return RTP_PART;
	if (id > p->temporal)
		p->temporal = id;
	return type > 14 || type % 2 || id < p->temporal ? RTP_DELTA : RTP_DISPOSABLE;
}

// aggregated returns the last kind of the NAL units from p->at on, with headers of some length.
static __noinline u32 aggregated(struct rtp_payload *p, u32 header)
{
	u32 kind = RTP_PART;

	for (u32 i = 0; i < MAX_UNITS; i++) {
		u8 b[4] = {};
		if (p->at + 2 + header > p->end || bpf_skb_load_bytes(p->skb, p->at, b, 3))
			break;
		if (header == 2 && bpf_skb_load_bytes(p->skb, p->at + 3, b + 3, 1))
			break;
		u32 size = b[0] << 8 | b[1];
		if (size < header || p->at + 2 + size > p->end)
			break;
		kind = stronger(kind, header == 2 ? h265_kind(p, b[2] >> 1 & 63, b[3]) : h264_kind(b[2]));
		p->at += 2 + size;
	}
	return kind;
}

INLINE u32 h264(struct rtp_payload *p)
{
	u8 b[2] = {};
	u32 len = p->end - p->at;

	if (bpf_skb_load_bytes(p->skb, p->at, b, 1))
		return RTP_PART;
	u32 type = b[0] & 31;
	if (type == 24) { // STAP-A
		p->at++;
		return aggregated(p, 1);
	}
	if (type == 28 && len > 1) // FU-A
		return bpf_skb_load_bytes(p->skb, p->at + 1, b + 1, 1) ? RTP_PART :
									 h264_kind((b[0] & 0xe0) | (b[1] & 31));
	return type > 24 ? RTP_DELTA : h264_kind(b[0]);
}

INLINE u32 h265(struct rtp_payload *p)
{
	u8 b[3] = {};
	u32 len = p->end - p->at;

	if (len < 2 || bpf_skb_load_bytes(p->skb, p->at, b, 2))
		return RTP_PART;
	u32 type = b[0] >> 1 & 63;
	if (type == 48) { // aggregation
		p->at += 2;
		return aggregated(p, 2);
	}
	if (type == 49 && len > 2) // fragment
		return bpf_skb_load_bytes(p->skb, p->at + 2, b + 2, 1) ? RTP_PART : h265_kind(p, b[2] & 63, b[1]);
	return type >= 48 ? RTP_DELTA : h265_kind(p, type, b[1]);
}

INLINE u32 obu_kind(u8 first, u8 second, u32 len)
{
	u32 type = first >> 3 & 15;

	if (!len)
		return RTP_PART;
	if (type == 1) // sequence header
		return RTP_KEY;
	if (type < 3 || type > 7 || type == 5) // no frame
		return RTP_PART;
	return first & 4 && len > 1 && second >> 5 ? RTP_DISPOSABLE : RTP_DELTA;
}

// read_obu reads the element at p->at, with its length or without, and goes on behind it. It returns 0 if there is no
// such element.
static __noinline u32 read_obu(struct rtp_payload *p, u32 has_length, u32 *kind)
{
	u8 b[4] = {};
	u32 left = p->end - p->at, used = 0, size = left;

	for (u32 i = 0; i < 4; i++)
		if (i < left && bpf_skb_load_bytes(p->skb, p->at + i, b + i, 1))
			return 0;
	if (has_length) {
		if (!(b[0] & 0x80)) {
			used = 1;
			size = b[0];
		} else if (left > 1 && !(b[1] & 0x80)) {
			used = 2;
			size = (b[0] & 0x7f) | b[1] << 7;
		} else {
			return 0;
		}
		if (size > left - used)
			return 0;
	}
	if (used == 0)
		*kind = obu_kind(b[0], b[1], size);
	else if (used == 1)
		*kind = obu_kind(b[1], b[2], size);
	else
		*kind = obu_kind(b[2], b[3], size);
	p->at += used + size;
	return 1;
}

INLINE u32 av1(struct rtp_payload *p)
{
	u8 b = 0;

	if (p->end - p->at < 2 || bpf_skb_load_bytes(p->skb, p->at, &b, 1))
		return RTP_PART;
	if (b & 0x08) // N: the first packet of a coded video sequence
		return RTP_KEY;
	if (b & 0x80) // Z: a fragment
		return RTP_PART;
	u32 elements = b >> 4 & 3, kind = RTP_PART;
	p->at++;
	for (u32 i = 1; i <= MAX_UNITS; i++) {
		if (p->at >= p->end || !read_obu(p, i != elements, &kind) || kind != RTP_PART || i == elements)
			break;
	}
	return kind;
}

// kind_of returns the kind of a payload between two bytes of a frame. temporal is the highest temporal id of the media
// so far.
static __noinline u32 kind_of(struct __sk_buff *skb, u32 codec, u32 at, u32 end, u32 *temporal)
{
	struct rtp_payload p = { .skb = skb, .at = at, .end = end };

	if (codec == CODEC_AUDIO)
		return RTP_SOUND;
	if (codec != CODEC_H264 && codec != CODEC_H265 && codec != CODEC_AV1)
		return RTP_OTHER;
	if (at >= end)
		return RTP_PART;
	if (codec == CODEC_H264)
		return h264(&p);
	if (codec == CODEC_AV1)
		return av1(&p);
	p.temporal = SHARED(*temporal);
	u32 kind = h265(&p), before = SHARED(*temporal);
	if (p.temporal > before)
		SHARED(*temporal) = p.temporal;
	return kind;
}
