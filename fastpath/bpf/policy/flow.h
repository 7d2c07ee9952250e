// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The policy layer for RTP: does this frame go to a player?
//
// What it promises to the fan-out: frame_goes returns COPY_SENT if the packet's frame goes to a player, and else why
// not. The answer is the same for all packets of a frame, in the kernel and in user space: admit is asked about the
// first packet that shows the frame's kind, and the decision is noted. Package rtpframe has the same rule; a test
// compares both.
#pragma once

#include "../application/rtp_kind.h"
#include "../shared/tokens.h"
#include "question.h"

// Levels of kinds, as MoQ broadcasts have them, and the highest levels of the classes 0 to 3 of a bucket.
#define LEVEL(priority) (128U << 8 | (priority))
#define SOUND_LEVEL LEVEL(64)
#define KEY_LEVEL LEVEL(96)
#define DELTA_LEVEL LEVEL(128)
#define DISPOSABLE_LEVEL LEVEL(160)
#define BOUNDS ((u64)SOUND_LEVEL | (u64)KEY_LEVEL << 16 | (u64)DELTA_LEVEL << 32 | (u64)DISPOSABLE_LEVEL << 48)

#define NO_WINDOW (1ULL << 60) // more than is ever in flight

// A packet of a frame.
struct rtp_part {
	u32 frame; // its number
	u32 kind;
	u32 len; // of the RTP packet
	u32 pad;
};

INLINE u32 level_of_kind(u32 kind)
{
	switch (kind) {
	case RTP_KEY:
		return KEY_LEVEL;
	case RTP_DELTA:
		return DELTA_LEVEL;
	case RTP_DISPOSABLE:
		return DISPOSABLE_LEVEL;
	}
	return SOUND_LEVEL;
}

// is_late reports whether a timestamp is of a frame before the latest ones. A timestamp from long before comes from a
// publisher that counts anew.
INLINE bool is_late(struct rtp_frames *f, u64 newest, u32 timestamp)
{
	u32 number = (u32)(newest >> 32) - (FRAME_HISTORY - 1), at = number;

	barrier_var(at);
	u64 oldest = SHARED(f->latest[at % FRAME_HISTORY]);
	s32 span = (u32)newest - (u32)oldest, late = (u32)oldest - timestamp;

	if (!oldest || (u32)(oldest >> 32) != number)
		return false;
	return late > 0 && late <= (s64)span * LATE_HISTORIES;
}

// find_frame looks for the number of a frame that has begun before: of several with the timestamp, the newest. It
// reports whether there is one.
INLINE bool find_frame(struct rtp_frames *f, u64 newest, u32 timestamp, u32 *number)
{
	u32 last = newest >> 32;

	for (u32 i = 0; i < FRAME_HISTORY; i++) {
		u32 at = last - i;
		barrier_var(at); // Linux 6.12 wants a bound of its own
		u64 e = SHARED(f->latest[at % FRAME_HISTORY]);
		if (e && (u32)e == timestamp && last - (u32)(e >> 32) < FRAME_HISTORY) {
			*number = e >> 32;
			return true;
		}
	}
	*number = last - (FRAME_HISTORY - 1);
	return is_late(f, newest, timestamp);
}

// is_ahead reports whether a sequence number is newer than the lead's.
INLINE bool is_ahead(u64 lead, u16 sequence)
{
	u16 ahead = sequence - (u16)(lead >> 32);

	return !lead || (ahead && ahead < 0x8000);
}

// number_frame returns the number of a packet's frame; 0: others were faster, again and again. If the sequence number
// is newer than the lead's, the packet is not of a frame before it, whatever the timestamp.
static __noinline u32 number_frame(struct rtp_frames *f, u32 timestamp, u32 sequence)
{
	for (u32 attempt = 0; attempt < 4; attempt++) {
		u64 newest = SHARED(f->newest);
		u32 number = newest >> 32;
		if (newest && (u32)newest == timestamp)
			return number;
		u64 lead = SHARED(f->lead);
		bool ahead = is_ahead(lead, sequence);
		if ((!lead || !ahead || (u32)lead == timestamp) && find_frame(f, newest, timestamp, &number))
			return number;
		number = (u32)(newest >> 32) + 1;
		u64 next = (u64)number << 32 | timestamp;
		if (__sync_bool_compare_and_swap(&f->newest, newest, next)) {
			u32 at = number;
			barrier_var(at);
			SHARED(f->latest[at % FRAME_HISTORY]) = next;
			if (ahead)
				__sync_bool_compare_and_swap(&f->lead, lead, LEADS | (u64)(u16)sequence << 32 | timestamp);
			return number;
		}
	}
	return 0;
}

// ask_about asks about a frame that begins.
static __noinline int ask_about(const struct rtp_flow *f, const struct rtp_part *p)
{
	struct admission *a = new_question();
	u32 cost = SHARED(f->bucket_cost);

	if (!cost && !replaced)
		return COPY_SENT;
	if (!a)
		return COPY_POLICY;
	__builtin_memset(a, 0, sizeof(*a));
	a->level = level_of_kind(p->kind);
	a->threshold = 0xffff;
	a->now = bpf_ktime_get_ns();
	a->group = p->frame;
	a->window = NO_WINDOW;
	a->packet_len = p->len;
	a->bucket_cost = cost;
	if (cost) {
		a->bucket_burst = SHARED(f->bucket_burst) * 1000ULL;
		a->bucket = (s64)(a->now + a->bucket_burst - SHARED(f->bucket_at));
		a->bucket_class = bucket_class(BOUNDS, a->level);
	}
	return ask_admit(a);
}

// decided returns what to note about a frame that is newer than those before.
INLINE u64 decided(u64 before, const struct rtp_part *p, bool goes)
{
	u32 ahead = p->frame - (u32)(before >> 32), broken = before & FLOW_BROKEN;
	u32 bits = ahead < FRAME_HISTORY ? (u32)before << ahead & ((1 << FRAME_HISTORY) - 1) : 0;

	if (p->kind == RTP_KEY || p->kind == RTP_DELTA)
		broken = goes ? 0 : FLOW_BROKEN;
	return (u64)p->frame << 32 | broken | bits | !goes;
}

// frame_goes returns COPY_SENT if the frame of a packet goes to a player.
static __noinline int frame_goes(struct rtp_flow *f, const struct rtp_part *p)
{
	for (u32 attempt = 0; attempt < 4; attempt++) {
		u64 before = SHARED(f->decided);
		u32 age = (u32)(before >> 32) - p->frame;
		bool broken = before & FLOW_BROKEN;
		if (age >= FRAME_HISTORY && (s32)age >= 0)
			age = FRAME_HISTORY - 1; // what was decided is forgotten
		if ((s32)age >= 0)
			return before >> age & 1 ? COPY_FRAME : COPY_SENT;
		if (p->kind == RTP_PART) // it shares the fate of what came before it
			return broken ? COPY_DEPENDENT : COPY_SENT;
		int why = COPY_DEPENDENT;
		if (!broken || (p->kind != RTP_DELTA && p->kind != RTP_DISPOSABLE))
			why = ask_about(f, p);
		if (__sync_bool_compare_and_swap(&f->decided, before, decided(before, p, why == COPY_SENT)))
			return why;
	}
	return COPY_FRAME; // user space decides
}
