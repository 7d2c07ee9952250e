// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The Internet checksum (RFC 1071) over parts of a packet.
#pragma once

#include <sluice/types.h>

// fold adds the carries of a sum until it has 16 bits.
INLINE u32 fold(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// sum_of returns the folded sum of len bytes, a multiple of four.
INLINE u32 sum_of(const void *p, u32 len)
{
	return fold((u32)bpf_csum_diff(0, 0, (void *)p, len, 0));
}

// swap_bytes returns the sum of the same data at an odd offset.
INLINE u32 swap_bytes(u32 sum)
{
	return (sum >> 8 | sum << 8) & 0xffff;
}
