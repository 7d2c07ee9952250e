// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Variable-length integers of QUIC (RFC 9000 §16), read from the scratch.
//
// Readers take a position in the IN half and move it. They read eight bytes at once and check nothing: callers compare
// the position with the end once, after the last integer of a frame or header. The mask in AT makes that safe, and is a
// bound that the verifier accepts: a comparison for each integer would multiply the paths that it has to walk.
#pragma once

#include "../shared/scratch.h"

#define AT(c, pos) ((c)->buf + ((pos) & (HALF - 1)))

INLINE u64 big_endian64(const u8 *p)
{
	return __builtin_bswap64(*(const u64 *)p);
}

INLINE u64 read_varint(struct scratch *c, u32 *pos)
{
	u64 v = big_endian64(AT(c, *pos));
	u32 len = 1 << (v >> 62);

	*pos += len;
	return v << 2 >> 2 >> (64 - 8 * len);
}

INLINE void skip_varint(struct scratch *c, u32 *pos)
{
	*pos += 1u << (*AT(c, *pos) >> 6);
}
