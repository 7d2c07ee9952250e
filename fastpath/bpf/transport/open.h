// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Opening a short header packet of a peer: header protection (RFC 9001 §5.4), packet number (RFC 9000 §17.1,
// appendix A.3) and AEAD. The plaintext is left at IN + PAYLOAD_AT.
//
// What QUIC discards is declined, as what the stack discards is, see accept.h. So only the newest keys open packets:
// with older ones, user space would open but those with numbers below all that came with newer ones.
#pragma once

#include "../shared/state.h"
#ifdef UNPROTECTED
#include "unprotected.h"
#else
#include "aead.h"
#endif

#define LONG_HEADER 0x80
#define FIXED_BIT 0x40
#define RESERVED_BITS 0x18
#define KEY_PHASE_SHIFT 2
#define MAX_CID 20
#define SAMPLE_AT 4 // from the packet number on (RFC 9001 §5.4.2)
#define MAX_PACKET 1452 // bytes; quic-go discards a longer packet (protocol.MaxPacketBufferSize)

// Connection IDs of ours all have this length; their bytes as masks of three words.
const volatile u32 connection_id_len = 8;
const volatile u64 connection_id_mask[3] = { ~0ULL, 0, 0 };

// find_publisher looks up the destination connection ID that follows the first byte in the scratch.
//
// A short header does not say how long the connection ID is (RFC 9000 §17.3). Ours all have one length, which is known
// when the programs are loaded, but not when they are compiled: so 20 bytes are read, and masked.
INLINE struct publisher *find_publisher(const u8 *packet, u32 *index)
{
	struct connection_id id __attribute__((aligned(8))); // it is written as words
	u64 *w = (u64 *)id.bytes;

	w[0] = *(u64 *)(packet + 1) & connection_id_mask[0];
	w[1] = *(u64 *)(packet + 9) & connection_id_mask[1];
	*(u32 *)(id.bytes + 16) = *(u32 *)(packet + 17) & (u32)connection_id_mask[2];
	id.len = connection_id_len;
	u32 *found = bpf_map_lookup_elem(&connection_ids, &id);
	if (!found)
		return 0;
	*index = *found;
	return publishers_at(*index);
}

// decode_packet_number expands a truncated packet number to the number closest to the expected one (RFC 9000 A.3).
INLINE u64 decode_packet_number(u64 expected, u64 truncated, u32 len)
{
	u64 window = 1ULL << (8 * len), pn = (expected & ~(window - 1)) | truncated;

	if (pn + window / 2 <= expected && pn < (1ULL << 62) - window)
		return pn + window;
	if (pn > expected + window / 2 && pn >= window)
		return pn - window;
	return pn;
}

// expect_after makes pn + 1 the next expected packet number, unless a larger one is expected already.
INLINE void expect_after(struct publisher *p, u64 pn)
{
	u64 expected = p->expected_pn;

#pragma unroll
	for (int i = 0; i < 4; i++) { // if other CPUs are faster each time, the next packet updates it
		if (pn < expected)
			return;
		u64 seen = __sync_val_compare_and_swap(&p->expected_pn, expected, pn + 1);
		if (seen == expected)
			return;
		expected = seen;
	}
}

// open_packet opens the QUIC packet of n bytes at offset at of the frame. *index becomes the connection's.
GLOBAL int open_packet(struct __sk_buff *skb, u32 at, u32 n, u32 *index)
{
	struct scratch *c = scratch_get();
	u32 cid = connection_id_len, pn_at = 1 + cid;

	if (!c || !index || cid > MAX_CID || at > 200)
		return PACKET_NOT_MEDIA;
	if (n < pn_at + SAMPLE_AT + 16)
		return PACKET_TOO_SHORT;
	if (n > MAX_PACKET)
		return PACKET_TOO_LONG;
	u8 *b = c->buf + IN;
	u32 front = pn_at + SAMPLE_AT + 16;
	if (bpf_skb_load_bytes(skb, at, b, front))
		return PACKET_TOO_SHORT;
	struct publisher *p = find_publisher(b, index);
	if (!p)
		return PACKET_NOT_MEDIA;
	if (!p->active)
		return PACKET_INACTIVE;

	if (header_mask(c, &p->keys[0], (u32 *)(b + pn_at + SAMPLE_AT))) // the header key is the same in all key phases
		return PACKET_NOT_MEDIA;
	u32 first = b[0] ^ (c->r[0] & 0x1f), pn_len = (first & 3) + 1, shift = 32 - 8 * pn_len;
	u32 truncated = (bpf_ntohl(*(u32 *)(b + pn_at)) ^ bpf_ntohl(c->r[0] >> 8 | c->r[1] << 24)) >> shift;
	u64 pn = decode_packet_number(p->expected_pn, truncated, pn_len);

	u32 aad_len = pn_at + pn_len;
	u64 *pad = (u64 *)(b + PAYLOAD_AT - 32);
	pad[0] = pad[1] = pad[2] = pad[3] = 0;
	u8 *aad = c->buf + aad_at(IN, aad_len);
	if (bpf_skb_load_bytes(skb, at, aad, pn_at))
		return PACKET_TOO_SHORT;
	aad[0] = first;
	*(u32 *)(aad + pn_at) = bpf_htonl(truncated << shift);

	// bpf_skb_load_bytes needs a length that the verifier knows to be at least 1 and to fit. The compiler knows that
	// from the comparisons with n, which the verifier does not carry over to rest: barrier_var makes it compare rest
	// itself.
	u32 rest = n - aad_len; // ciphertext and tag
	barrier_var(rest);
	if (rest <= TAG_LEN || rest > MAX_PAYLOAD + TAG_LEN)
		return PACKET_TOO_SHORT;
	if (bpf_skb_load_bytes(skb, at + aad_len, b + PAYLOAD_AT, rest))
		return PACKET_TOO_SHORT;
	u32 phase = first >> KEY_PHASE_SHIFT & 1;
	if (!(p->keys_set >> phase & 1))
		return PACKET_NO_KEY;
	struct packet_keys *k = phase ? &p->keys[1] : &p->keys[0];
	int err = aead_open(c, k, *index, (u64)phase << GENERATION_SHIFT | pn, aad_len, rest - TAG_LEN);
	if (err)
		return PACKET_FORGED;
	if (first & RESERVED_BITS)
		return PACKET_INVALID;
	expect_after(p, pn);
	c->pn = pn;
	c->len = rest - TAG_LEN;
	return PACKET_OPENED;
}
