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

// Before Linux 6.13 bpf_csum_diff copied its input to a buffer as large as a BPF stack, and returned -EINVAL, which
// looks like a sum, for more than that.
#define MAX_SUM 512

// sum_of returns the folded sum of len bytes: a multiple of four, and at most MAX_SUM.
INLINE u32 sum_of(const void *p, u32 len)
{
	return fold((u32)bpf_csum_diff(0, 0, (void *)p, len, 0));
}

// sum_of_payload returns the folded sum of len bytes: a multiple of four, and at most three times MAX_SUM.
INLINE u32 sum_of_payload(const u8 *p, u32 len)
{
	u64 sum = 0;

#pragma unroll
	for (u32 at = 0; at < 3 * MAX_SUM; at += MAX_SUM) {
		if (len <= at)
			break;
		u32 n = len - at;
		barrier_var(n); // the verifier needs a bound of n, not of len
		if (n > MAX_SUM)
			n = MAX_SUM;
		sum += (u32)bpf_csum_diff(0, 0, (void *)(p + at), n, 0);
	}
	return fold(sum);
}

// swap_bytes returns the sum of the same data at an odd offset.
INLINE u32 swap_bytes(u32 sum)
{
	return (sum >> 8 | sum << 8) & 0xffff;
}
