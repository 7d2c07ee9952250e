// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The question to admit, and its answers. A program that takes its place (--policy) needs no other file: this one
// changes only by new fields at the end of the struct. The program may have maps and other functions, may call the
// helpers of classifiers, and has 192 bytes of stack. examples/policy has one.
#pragma once

#include <sluice/types.h>

// A copy for one subscriber that is about to be claimed; or an object that the media sender is about to begin, with its
// first packet; or an RTP frame, with the first of its packets that shows the frame's kind. A copy that opens a stream
// is asked about before. admit may be called again for the same copy, and an admitted copy may stay here for another
// reason: an answer must not depend on how often admit was called.
struct admission {
	u64 now; // CLOCK_MONOTONIC, nanoseconds; 0 if there is no bucket and admit is the built-in one
	// What the built-in admit does not look at is only set for a program that takes its place.
	u64 age; // nanoseconds in which it could have been sent: since the relay received the packet, or the object, or
		 // since it opened the stream, if that was later; 0 in the run that received the packet
	u64 group; // Group ID; RTP has none: the number of the frame
	u64 window; // congestion window, bytes; RTP has none: 1 << 60
	u64 in_flight; // bytes that were sent and are neither acknowledged nor lost; of RTP 0
	s64 bucket; // how full the bucket of the connection is, or of the RTP player's media, in nanoseconds of its rate;
		    // negative: overdrawn
	u64 bucket_burst; // when it is full
	u32 bucket_cost; // nanoseconds in which the bucket fills by 1024 bytes; 0: there is none
	u32 bucket_class; // of the level, from 0, the most important one, to 4
	u32 level; // Subscriber Priority << 8 | Publisher Priority; lower levels go first
	u32 threshold; // the highest level that --drop lets pass
	u32 packet_len; // bytes of the QUIC packet, or of the RTP packet
	u32 reserved; // 0
};
_Static_assert(sizeof(struct admission) == 80, "admission has no padding");

// Answers. Any other one is DECLINE.
enum answer {
	ADMIT,
	DECLINE_PRIORITY, // the level is above the threshold
	DECLINE_BUCKET, // the bytes in the bucket are kept for more important levels
	DECLINE, // for another reason: the built-in admit has none
};
