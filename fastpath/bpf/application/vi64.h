// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Variable-length integers of MoQT (draft-18 §1.4.1), read from and written to the scratch. Readers work as in
// transport/varint.h.
#pragma once

#include "../transport/varint.h"

// The number of leading ones in a byte.
static const u8 leading_ones[256] = {
	[128 ... 191] = 1, [192 ... 223] = 2, [224 ... 239] = 3, [240 ... 247] = 4,
	[248 ... 251] = 5, [252 ... 253] = 6, [254] = 7, [255] = 8,
};

INLINE u64 read_vi64(struct scratch *c, u32 *pos)
{
	u32 more = leading_ones[*AT(c, *pos)] & 15; // bytes after the first
	u64 v = big_endian64(AT(c, *pos + (more >> 3))); // of nine bytes the first carries no bit of the value
	u32 prefix = more == 8 ? 0 : more + 1, rest = more == 8 ? 0 : 56 - 8 * (more & 7);

	*pos += more + 1;
	return v << prefix >> prefix >> rest;
}

// vi64_len is the length of the shortest encoding.
INLINE u32 vi64_len(u64 v)
{
	if (v >> 28)
		return v >> 56 ? 9 : v >> 49 ? 8 : v >> 42 ? 7 : v >> 35 ? 6 : 5;
	return v >> 21 ? 4 : v >> 14 ? 3 : v >> 7 ? 2 : 1;
}

// write_vi64_before writes the shortest encoding of v so that it ends before p, and returns its length. It also changes
// bytes before that, up to p - 9: write from the end to the front.
INLINE u32 write_vi64_before(u8 *p, u64 v)
{
	u32 len = vi64_len(v);

	*(u64 *)(p - 8) = __builtin_bswap64(v);
	if (len == 9)
		p[-9] = 0xff;
	else
		p[-(s64)len] |= 0xff00 >> (len - 1); // len - 1 leading ones and a zero
	return len;
}
