// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// ChaCha20 (RFC 8439 §2.3, §2.4) on the state in the scratch.
//
// Loops over blocks are bpf_loop calls, because the verifier walks through every iteration of a loop in C, and gives up
// after a million instructions; it looks at a callback once. The price is a call for each iteration, and the callback's
// stack, which counts towards the limit. The ten double rounds stay a loop in C, since they work on constants and
// registers only; unrolled, the sixteen words would spill to more stack than there is.
#pragma once

#include "../shared/scratch.h"

#define ROTL(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define QUARTER_ROUND(a, b, c, d) \
	a += b; d ^= a; d = ROTL(d, 16); \
	c += d; b ^= c; b = ROTL(b, 12); \
	a += b; d ^= a; d = ROTL(d, 8); \
	c += d; b ^= c; b = ROTL(b, 7);
#define DOUBLE_ROUND \
	QUARTER_ROUND(x0, x4, x8, x12) QUARTER_ROUND(x1, x5, x9, x13) \
	QUARTER_ROUND(x2, x6, x10, x14) QUARTER_ROUND(x3, x7, x11, x15) \
	QUARTER_ROUND(x0, x5, x10, x15) QUARTER_ROUND(x1, x6, x11, x12) \
	QUARTER_ROUND(x2, x7, x8, x13) QUARTER_ROUND(x3, x4, x9, x14)
#define TWENTY_ROUNDS \
	_Pragma("clang loop unroll(disable)") \
	for (int round = 0; round < 10; round++) { DOUBLE_ROUND }
#define LOAD_STATE(v) \
	u32 x0 = (v)[0], x1 = (v)[1], x2 = (v)[2], x3 = (v)[3], x4 = (v)[4], x5 = (v)[5], x6 = (v)[6], x7 = (v)[7], \
	    x8 = (v)[8], x9 = (v)[9], x10 = (v)[10], x11 = (v)[11], x12 = (v)[12], x13 = (v)[13], x14 = (v)[14], \
	    x15 = (v)[15]

// chacha20_init sets the constants, the key and the last four words: block counter and nonce.
INLINE void chacha20_init(u32 *state, const u32 *key, u32 counter, u32 n0, u32 n1, u32 n2)
{
	state[0] = 0x61707865;
	state[1] = 0x3320646e;
	state[2] = 0x79622d32;
	state[3] = 0x6b206574;
#pragma unroll
	for (int i = 0; i < 8; i++)
		state[4 + i] = key[i];
	state[12] = counter;
	state[13] = n0;
	state[14] = n1;
	state[15] = n2;
}

// chacha20_half_block leaves the first 32 bytes of one key stream block in r and s: the one-time Poly1305 key
// (RFC 8439 §2.6), or a header protection mask (RFC 9001 §5.4.4).
GLOBAL int chacha20_half_block(struct scratch *c)
{
	if (!c)
		return -1;
	LOAD_STATE(c->state);
	TWENTY_ROUNDS
	c->r[0] = x0 + c->state[0];
	c->r[1] = x1 + c->state[1];
	c->r[2] = x2 + c->state[2];
	c->r[3] = x3 + c->state[3];
	c->s[0] = x4 + c->state[4];
	c->s[1] = x5 + c->state[5];
	c->s[2] = x6 + c->state[6];
	c->s[3] = x7 + c->state[7];
	return 0;
}

#define STORE(i, lo, hi) \
	out[i] = (u64)(u32)(hi + c->state[2 * i + 1]) << 32 | (u32)(lo + c->state[2 * i]);

// chacha20_block computes block i of the key stream.
static long chacha20_block(u32 i, struct scratch **run)
{
	struct scratch *c = *run;
	u32 at = OUT + PAYLOAD_AT + i * 64;

	if (at > 2 * HALF - 64)
		return 1;
	LOAD_STATE(c->state);
	TWENTY_ROUNDS
	u64 *out = (u64 *)(c->buf + at);
	STORE(0, x0, x1)
	STORE(1, x2, x3)
	STORE(2, x4, x5)
	STORE(3, x6, x7)
	STORE(4, x8, x9)
	STORE(5, x10, x11)
	STORE(6, x12, x13)
	STORE(7, x14, x15)
	c->state[12]++;
	return 0;
}

#define COMPUTED_LEN ((MAX_PAYLOAD + 63) / 64 * 64)

// computed_stream is where a key stream is computed: sealing overwrites it with the ciphertext, and while a packet is
// opened there is no copy.
INLINE u64 *computed_stream(struct scratch *c)
{
	return (u64 *)(c->buf + OUT + PAYLOAD_AT);
}

// chacha20_stream computes len bytes of key stream, rounded up to whole blocks of 64. It starts at the block counter in
// the state.
GLOBAL int chacha20_stream(struct scratch *c, u32 len)
{
	if (!c || len > MAX_PAYLOAD)
		return -1;
	bpf_loop((len + 63) / 64, chacha20_block, &c, 0);
	return 0;
}
