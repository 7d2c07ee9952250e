// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What admit (policy.h) is asked, and what it answers. A program that stands in for admit needs no other file: this one
// changes only by new fields at the end of the struct.
//
// The relay has no way to load such a program, and no test does: admit is always the built-in one. What an operator can
// replace is the media.DropPolicy of user space, whose threshold and bucket admit applies.
#pragma once

#include <sluice/types.h>

// A copy for one subscriber that is about to be claimed; or, with packet_len 0, a stream that is about to be opened for
// such copies.
struct admission {
	u64 now; // CLOCK_MONOTONIC, nanoseconds; 0 if there is no bucket and the policy is the built-in one
	u64 age; // nanoseconds since the relay received the packet, in a worker; 0 in the run that received it
	u64 group; // Group ID
	u64 window; // congestion window, bytes
	u64 in_flight; // bytes that were sent and are neither acknowledged nor lost
	s64 bucket; // how full the bucket of the connection is, in nanoseconds of its rate; negative: overdrawn
	u64 bucket_burst; // when it is full
	u32 bucket_cost; // nanoseconds in which the bucket fills by 1024 bytes; 0: there is no bucket
	u32 bucket_class; // of the level, from 0, the most important one, to 4
	u32 level; // Subscriber Priority << 8 | Publisher Priority; lower levels go first
	u32 threshold; // the highest level that --drop lets pass
	u32 packet_len; // bytes of the QUIC packet
	u32 subscriber; // tells connections apart; reused when one has ended
};
_Static_assert(sizeof(struct admission) == 80, "admission has no padding");

// Answers. Any other one is DECLINE.
enum answer {
	ADMIT,
	DECLINE_PRIORITY, // the level is above the threshold
	DECLINE_BUCKET, // the bytes in the bucket are kept for more important levels
	DECLINE, // for another reason: the built-in policy has none
};
