// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The application layer: MoQT, in the data layout of draft-18.
//
// What it promises to the fan-out, about the frame that the scratch names:
//
//	which track        find_subgroup for a STREAM frame, claim_object for a DATAGRAM frame: the track, and an element
//	                   to remember what became of the frame. They count why a frame is not forwarded
//	for whom           subgroup_wanted, object_wanted
//	what is rewritten  the first header.len bytes of the data. write_prefix and write_object_header write the bytes
//	                   that a subscriber gets instead, so that they end where the rest of the data begins
//	what priority      level_of
//
// It looks at headers only, not into objects. Subscriptions, subgroups and objects mean nothing to other layers,
// except that a subscription names the connection that it is for.
#pragma once

#include "object.h"
#include "subgroup.h"

// level_of combines both priorities (draft-18 §7) as user space does. Lower levels go first.
INLINE u32 level_of(const struct subscription *sub, u8 publisher_priority)
{
	return sub->priority << 8 | publisher_priority;
}
