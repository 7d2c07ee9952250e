// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Poly1305 (RFC 8439 §2.5) over whole 16-byte blocks. aead.h authenticates most blocks while it encrypts them.
//
// Radix 2^32 with lazy carries, h3 holding 34 bits. The clamp makes every r[i] < 2^28 and r[1..3] multiples of four, so
// 2^128 * r[i] = 5/4 * r[i] (mod 2^130-5) is a whole number and every sum of four products stays below 2^64: sixteen
// multiplications for a block and no masks. BPF has no 128-bit products, so the usual radix of 2^44 is out of reach. No
// step depends on secret data.
//
// Powers of r would allow several blocks at a time, but they are not clamped: in radix 2^26 a block then takes 25
// multiplications. CPUs begin one a cycle, and here a block takes 18 cycles, with its carries and its encryption.
//
// The multipliers lie in memory, and each is loaded where it is used: h, the sums and a product fill BPF's ten
// registers. The compiler would keep some multipliers in registers and spill the rest, and add carries before products
// that are ready earlier. So the multiplications are in assembly.
#pragma once

#include "../shared/scratch.h"

#define MUL(d, h, r) \
	asm("%0 = *(u64 *)%2\n%0 *= %1" : "=&r"(d) : "r"(h), "m"(r));
#define MUL_ADD(d, h, r) { \
	u64 product; \
	asm("%1 = *(u64 *)%3\n%1 *= %2\n%0 += %1" : "+r"(d), "=&r"(product) : "r"(h), "m"(r)); }
// h0 is what the block before has computed last.
#define SUM(d, a, ra, b, rb, c, rc, r) \
	MUL(d, a, ra) MUL_ADD(d, b, rb) MUL_ADD(d, c, rc) MUL_ADD(d, h0, r)

// low_half is one instruction. The compiler would make two shifts.
INLINE u64 low_half(u64 x)
{
	u32 low;

	asm("%0 = %1" : "=w"(low) : "w"((u32)x));
	return low;
}

// POLY_BLOCK takes a block of four words. The barrier keeps d3 * 5 from becoming a multiplication.
#define POLY_BLOCK(w0, w1, w2, w3) { \
	u64 d0, d1, d2, d3; \
	h0 += w0; h1 += w1; h2 += w2; h3 += w3; h3 += 1ULL << 32; \
	SUM(d0, h1, s3, h2, s2, h3, s1, r0) \
	SUM(d1, h2, s3, h1, r0, h3, s2, r1) \
	SUM(d2, h2, r0, h1, r1, h3, s3, r2) \
	SUM(d3, h2, r1, h1, r2, h3, r0, r3) \
	d1 += d0 >> 32; d2 += d1 >> 32; d3 += d2 >> 32; \
	h0 = low_half(d0); h1 = low_half(d1); h2 = low_half(d2); h3 = d3 & 0x3ffffffffULL; \
	d3 >>= 34; h0 += d3; barrier_var(d3); h0 += d3 << 2; }

#define POLY_LOAD(p) \
	u64 h0 = (p)->h0, h1 = (p)->h1, h2 = (p)->h2, h3 = (p)->h3, r0 = (p)->r0, r1 = (p)->r1, r2 = (p)->r2, \
	    r3 = (p)->r3, s1 = (p)->s1, s2 = (p)->s2, s3 = (p)->s3;
#define POLY_STORE(p) \
	(p)->h0 = h0; (p)->h1 = h1; (p)->h2 = h2; (p)->h3 = h3;

// poly1305_start begins with the one-time key in r and s.
INLINE void poly1305_start(struct scratch *c)
{
	struct poly *p = &c->poly;

	p->h0 = p->h1 = p->h2 = p->h3 = 0;
	p->r0 = c->r[0] & 0x0fffffff;
	p->r1 = c->r[1] & 0x0ffffffc;
	p->r2 = c->r[2] & 0x0ffffffc;
	p->r3 = c->r[3] & 0x0ffffffc;
	p->s1 = p->r1 + (p->r1 >> 2);
	p->s2 = p->r2 + (p->r2 >> 2);
	p->s3 = p->r3 + (p->r3 >> 2);
}

#define MAX_BLOCKS 5 // for poly1305_blocks

// poly1305_blocks takes n blocks.
static __noinline int poly1305_blocks(struct poly *p, const u8 *blocks, u32 n)
{
	POLY_LOAD(p)
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_BLOCKS; i++) {
		if (i >= n)
			break;
		const u32 *w = (u32 *)(blocks + i * 16);
		POLY_BLOCK(w[0], w[1], w[2], w[3])
	}
	POLY_STORE(p)
	return 0;
}

// poly1305_finish reduces h completely, adds the second half of the key and stores the tag.
static __noinline int poly1305_finish(struct scratch *c)
{
	const struct poly *p = &c->poly;
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
	return 0;
}
