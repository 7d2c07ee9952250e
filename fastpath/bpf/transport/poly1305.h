// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Poly1305 (RFC 8439 §2.5) over whole 16-byte blocks of the scratch.
//
// Radix 2^32 with lazy carries, h3 holding 34 bits. The clamp makes every r[i] < 2^28 and r[1..3] multiples of four, so
// 2^128 * r[i] = 5/4 * r[i] (mod 2^130-5) is a whole number and every sum of four products stays below 2^64: sixteen
// multiplications for a block and no masks. BPF has no 128-bit products, so the usual radix of 2^44 is out of reach. No
// step depends on secret data.
#pragma once

#include "../shared/scratch.h"

struct poly {
	u64 h0, h1, h2, h3;
	u64 r0, r1, r2, r3;
	u64 s1, s2, s3; // 5/4 * r
	struct scratch *c;
	u32 at;
};

#define POLY_LIMBS \
	u64 h0 = p->h0, h1 = p->h1, h2 = p->h2, h3 = p->h3; \
	u64 r0 = p->r0, r1 = p->r1, r2 = p->r2, r3 = p->r3, s1 = p->s1, s2 = p->s2, s3 = p->s3;

#define POLY_BLOCK(w) { \
	h0 += (w)[0]; h1 += (w)[1]; h2 += (w)[2]; h3 += (w)[3]; h3 += 1ULL << 32; \
	u64 d0 = h1 * s3 + h2 * s2 + h3 * s1 + h0 * r0; \
	u64 d1 = h2 * s3 + h3 * s2 + h1 * r0 + h0 * r1; \
	u64 d2 = h3 * s3 + h2 * r0 + h1 * r1 + h0 * r2; \
	u64 d3 = h3 * r0 + h2 * r1 + h1 * r2 + h0 * r3; \
	d1 += d0 >> 32; d2 += d1 >> 32; d3 += d2 >> 32; \
	h0 = (u32)d0; h1 = (u32)d1; h2 = (u32)d2; h3 = d3 & 0x3ffffffffULL; \
	d3 >>= 34; h0 += d3 + (d3 << 2); }

#define POLY_BLOCKS(name, count) \
	static long name(u32 i, struct poly *p) \
	{ \
		struct scratch *c = p->c; \
		u32 at = p->at + i * 16 * (count); \
		if (at > 2 * HALF - 16 * (count)) \
			return 1; \
		const u32 *w = (u32 *)(c->buf + at); \
		POLY_LIMBS \
		_Pragma("unroll") for (int k = 0; k < (count); k++) POLY_BLOCK(w + 4 * k) \
		p->h0 = h0; p->h1 = h1; p->h2 = h2; p->h3 = h3; \
		return 0; \
	}

POLY_BLOCKS(poly1305_four_blocks, 4)
POLY_BLOCKS(poly1305_one_block, 1)

// poly1305_finish reduces h completely, adds the second half of the key and stores the tag.
INLINE void poly1305_finish(struct scratch *c, const struct poly *p)
{
	u64 h0 = p->h0, h1 = p->h1, h2 = p->h2, h3 = p->h3;

#pragma unroll
	for (int pass = 0; pass < 2; pass++) {
		h1 += h0 >> 32; h0 = (u32)h0;
		h2 += h1 >> 32; h1 = (u32)h1;
		h3 += h2 >> 32; h2 = (u32)h2;
		h0 += (h3 >> 34) * 5; h3 &= 0x3ffffffffULL;
	}
	h1 += h0 >> 32; h0 = (u32)h0;
	h2 += h1 >> 32; h1 = (u32)h1;
	h3 += h2 >> 32; h2 = (u32)h2;

	// h + 5 overflows 2^130 exactly when h >= 2^130-5; then it is the reduced value.
	u64 g0 = h0 + 5, g1 = h1 + (g0 >> 32), g2 = h2 + (g1 >> 32), g3 = h3 + (g2 >> 32);
	u64 mask = -(g3 >> 34 & 1);
	h0 = (h0 & ~mask) | ((u32)g0 & mask);
	h1 = (h1 & ~mask) | ((u32)g1 & mask);
	h2 = (h2 & ~mask) | ((u32)g2 & mask);
	h3 = (h3 & ~mask) | (g3 & mask);

	h0 += c->s[0];
	h1 = (u32)h1 + (h0 >> 32) + c->s[1];
	h2 = (u32)h2 + (h1 >> 32) + c->s[2];
	h3 = (u32)h3 + (h2 >> 32) + c->s[3];
	c->tag[0] = (u64)(u32)h0 | h1 << 32;
	c->tag[1] = (u64)(u32)h2 | h3 << 32;
}

// poly1305 leaves in tag the authenticator of n blocks at buf+at under the one-time key in r and s.
GLOBAL int poly1305(struct scratch *c, u32 at, u32 n)
{
	if (!c || n > (MAX_AAD + MAX_PAYLOAD) / 16 + 2 || at > 2 * HALF - 1600)
		return -1;
	struct poly p = {
		.r0 = c->r[0] & 0x0fffffff, .r1 = c->r[1] & 0x0ffffffc,
		.r2 = c->r[2] & 0x0ffffffc, .r3 = c->r[3] & 0x0ffffffc,
		.c = c, .at = at,
	};
	p.s1 = p.r1 + (p.r1 >> 2);
	p.s2 = p.r2 + (p.r2 >> 2);
	p.s3 = p.r3 + (p.r3 >> 2);
	bpf_loop(n / 4, poly1305_four_blocks, &p, 0);
	p.at = at + (n & ~3u) * 16;
	bpf_loop(n & 3, poly1305_one_block, &p, 0);
	poly1305_finish(c, &p);
	return 0;
}
