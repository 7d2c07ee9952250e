// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// AEAD_CHACHA20_POLY1305 (RFC 8439 §2.8) on packets that lie in the scratch as shared/scratch.h describes. Opening and
// sealing share every step.
//
// A key stream is applied to four blocks at a time, which are authenticated in the same pass: the CPU encrypts while
// Poly1305 waits for its multiplications. That loop is in C, unlike the loops of chacha20.h: calling a callback would
// cost as much as a block, and 23 iterations are few enough for the verifier.
#pragma once

#include "keystream.h"
#include "lookahead.h"
#include "poly1305.h"

enum { AEAD_OPENED = 0, AEAD_REJECTED = 1 };

#define CHUNK 64

// apply_chunks applies the key stream to n whole chunks from buf+src to buf+dst, and authenticates the ciphertext: its
// output if it seals, else its input.
INLINE int apply_chunks(struct scratch *c, const u64 *stream, u32 src, u32 dst, u32 n, bool sealing)
{
	POLY_LOAD(&c->poly)
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_PAYLOAD / CHUNK; i++) {
		if (i >= n)
			break;
		const u64 *in = (u64 *)(c->buf + src + i * CHUNK), *key = stream + i * 8;
		u64 *out = (u64 *)(c->buf + dst + i * CHUNK);
#pragma unroll
		for (int j = 0; j < 8; j += 2) {
			u64 x = in[j], y = in[j + 1], x_out = x ^ key[j], y_out = y ^ key[j + 1];
			out[j] = x_out;
			out[j + 1] = y_out;
			if (sealing) {
				x = x_out;
				y = y_out;
			}
			POLY_BLOCK(low_half(x), x >> 32, low_half(y), y >> 32)
		}
	}
	POLY_STORE(&c->poly)
	return 0;
}

// The chunks have functions of their own because of their stack.
static __noinline int seal_chunks(struct scratch *c, const u64 *stream, u32 src, u32 n)
{
	return apply_chunks(c, stream, src, OUT + PAYLOAD_AT, n, true);
}

static __noinline int open_chunks(struct scratch *c, const u64 *stream, u32 n)
{
	return apply_chunks(c, stream, IN + PAYLOAD_AT, IN + PAYLOAD_AT, n, false);
}

// apply_rest applies a key stream of stream_len bytes to what follows the whole chunks of len bytes.
INLINE int apply_rest(struct scratch *c, const u64 *stream, u32 stream_len, u32 src, u32 dst, u32 len)
{
	u32 at = len & ~(CHUNK - 1);

	if (at == len)
		return 0;
	if (at > stream_len - CHUNK)
		return -1;
	const u64 *in = (u64 *)(c->buf + src + at), *key = (u64 *)((u8 *)stream + at);
	u64 *out = (u64 *)(c->buf + dst + at);
#pragma unroll
	for (int j = 0; j < CHUNK / 8; j++)
		out[j] = in[j] ^ key[j];
	return 0;
}

// mac_header begins the authenticator of the packet in a half of buf with its associated data.
INLINE void mac_header(struct scratch *c, u32 half)
{
	u32 blocks = c->aad_len > 16 ? 2 : 1;

	poly1305_start(c);
	poly1305_blocks(&c->poly, c->buf + half + PAYLOAD_AT - 16 * blocks, blocks);
}

// mac_rest takes what follows the whole chunks of len bytes of ciphertext, and leaves the authenticator in tag. It
// overwrites the 32 bytes behind the ciphertext.
INLINE void mac_rest(struct scratch *c, u32 half, u32 len)
{
	u8 *payload = c->buf + half + PAYLOAD_AT;
	u64 *pad = (u64 *)(payload + len), *lengths = (u64 *)(payload + ((len + 15) & ~15u));

	pad[0] = 0;
	pad[1] = 0;
	lengths[0] = c->aad_len;
	lengths[1] = len;
	poly1305_blocks(&c->poly, payload + (len & ~(CHUNK - 1)), (len % CHUNK + 15) / 16 + 1);
	poly1305_finish(c);
}

// encrypt applies a key stream of stream_len bytes to buf[src, src+len), with the one-time key in r and s. It leaves
// ciphertext and tag at buf+OUT+PAYLOAD_AT. The barriers keep comparisons whose results the compiler knows, and the
// verifier has forgotten.
static __noinline int encrypt(struct scratch *c, const u64 *stream, u32 stream_len, u32 src, u32 len)
{
	barrier_var(src);
	barrier_var(len);
	if (src > HALF)
		return -1;
	if (len > MAX_PAYLOAD)
		return -1;
	mac_header(c, OUT);
	seal_chunks(c, stream, src, len / CHUNK);
	if (apply_rest(c, stream, stream_len, src, OUT + PAYLOAD_AT, len))
		return -1;
	mac_rest(c, OUT, len);
	u64 *tag = (u64 *)(c->buf + OUT + PAYLOAD_AT + len);
	tag[0] = c->tag[0];
	tag[1] = c->tag[1];
	return 0;
}

// decrypt does the reverse in place, at buf+IN+PAYLOAD_AT, and compares the tag, without a branch on its bytes.
static __noinline int decrypt(struct scratch *c, const u64 *stream, u32 stream_len, u32 len)
{
	barrier_var(len);
	if (len > MAX_PAYLOAD)
		return -1;
	const u64 *tag = (u64 *)(c->buf + IN + PAYLOAD_AT + len);
	u64 t0 = tag[0], t1 = tag[1]; // mac_rest overwrites them

	mac_header(c, IN);
	open_chunks(c, stream, len / CHUNK);
	mac_rest(c, IN, len);
	if (apply_rest(c, stream, stream_len, IN + PAYLOAD_AT, IN + PAYLOAD_AT, len))
		return -1;
	return (c->tag[0] ^ t0) | (c->tag[1] ^ t1) ? AEAD_REJECTED : AEAD_OPENED;
}

// seal_ahead does what aead_seal does, if there is a key stream that was made ahead. It returns a positive value if
// there is none. It is a function of its own to keep the stack of seal_packet small.
static __noinline int seal_ahead(struct scratch *c, u32 connection, u64 word, u32 src, u32 len)
{
	struct key_stream *k = take_key_stream(RINGS * connection + RING_SEAL, word, len);

	count(k ? SEAL_AHEAD : SEAL_COMPUTED);
	if (!k)
		return 1;
	take_one_time_key(c, k);
	int err = encrypt(c, k->stream, LOOKAHEAD_LEN, src, len);
	put_key_stream(k, SLOT_FREE);
	return err;
}

// aead_seal encrypts buf[src, src+len) to buf+OUT+PAYLOAD_AT and puts the tag behind it. word is the packet's number
// with the generation of the key, of a connection with that index. The associated data has aad_len bytes, a field of
// the scratch: one argument more would be one word more on the stack while ChaCha20 runs.
INLINE int aead_seal(struct scratch *c, const struct packet_keys *k, u32 connection, u64 word, u32 src, u32 len)
{
	int err = seal_ahead(c, connection, word, src, len);

	if (err <= 0)
		return err;
	err = compute_key_stream(c, k, word & NUMBER_MASK, len);
	return err ? err : encrypt(c, computed_stream(c), COMPUTED_LEN, src, len);
}

// aead_open verifies and decrypts in place len bytes of ciphertext, whose tag follows them. word is the packet's number
// with the key phase, of a connection with that index. It returns a negative value when an argument is out of range. A
// packet that is rejected leaves its key stream for the packet that has the number.
INLINE int aead_open(struct scratch *c, const struct packet_keys *k, u32 connection, u64 word, u32 aad_len, u32 len)
{
	struct key_stream *ahead = take_key_stream(RINGS * connection + RING_OPEN, word, len);

	c->aad_len = aad_len;
	count(ahead ? OPEN_AHEAD : OPEN_COMPUTED);
	if (!ahead) {
		int err = compute_key_stream(c, k, word & NUMBER_MASK, len);
		return err ? err : decrypt(c, computed_stream(c), COMPUTED_LEN, len);
	}
	take_one_time_key(c, ahead);
	int err = decrypt(c, ahead->stream, LOOKAHEAD_LEN, len);
	put_key_stream(ahead, err ? word : SLOT_FREE);
	return err;
}
