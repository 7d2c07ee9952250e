// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What every observer may read of QUIC versions 1 and 2 (RFC 8999, RFC 9000 §17, RFC 9369): long headers up to the
// connection IDs, and the spin bit of short headers.
#pragma once

#include "udp.h"

#define QUIC_LONG 0x80
#define QUIC_FIXED 0x40
#define QUIC_SPIN 0x20

#define QUIC_V1 0x00000001
#define QUIC_V2 0x6b3343cf

#define QUIC_CID_MAX 20
// RFC 9000 §14.1: a datagram with a client's Initial packet is at least this long.
#define QUIC_INITIAL_MIN 1200

struct quic_long_header {
	u8 first;
	u32 version;
	u8 destination_length;
} __attribute__((packed));

// A long header, with hashes of its connection IDs.
struct quic_long {
	u32 destination_id;
	u32 source_id;
	u32 destination_begin; // the first bytes of the ID itself
	u8 destination_length;
	bool initial;
	u8 pad[2];
};

struct quic_cid {
	u8 bytes[24]; // at most QUIC_CID_MAX are used, the others are 0
};

INLINE u32 quic_hash(const struct quic_cid *id, u32 length)
{
	const u64 *w = (const u64 *)id->bytes;
	u64 hash = length + 1;

	for (int i = 0; i < 3; i++)
		hash = (hash ^ w[i]) * 0x9e3779b97f4a7c15ull ^ hash >> 29;
	return hash >> 32;
}

// quic_read_cid reads the connection ID of the given length. begin is its first four bytes.
INLINE bool quic_read_cid(const struct cursor *c, u32 at, u32 length, u32 *hash, u32 *begin)
{
	struct quic_cid id = {};

	length &= 31;
	if (length && (length > QUIC_CID_MAX || !cursor_copy(c, at, id.bytes, length)))
		return false;
	*hash = quic_hash(&id, length);
	*begin = *(const u32 *)id.bytes;
	return true;
}

// quic_version_known reports whether the layout of the rest of the header is known.
INLINE bool quic_version_known(u32 version)
{
	return version == bpf_htonl(QUIC_V1) || version == bpf_htonl(QUIC_V2);
}

// quic_is_initial reports whether the packet is an Initial. The packet types of version 2 are one more than in version
// 1.
INLINE bool quic_is_initial(const struct quic_long_header *h)
{
	u8 type = h->first >> 4 & 3;

	return type == (h->version == bpf_htonl(QUIC_V2));
}

// quic_parse_long reads the long header of a known version.
INLINE enum outcome quic_parse_long(const struct cursor *c, const struct packet *p, struct quic_long *l)
{
	struct quic_long_header h;
	u32 at = p->at + sizeof(h), end = p->at + p->payload;
	u32 begin;
	u8 n;

	if (p->payload < sizeof(h) || !cursor_read(c, p->at, &h, sizeof(h)) || !quic_version_known(h.version))
		return OUTCOME_UDP_OTHER;
	l->initial = quic_is_initial(&h);
	n = h.destination_length;
	if (n > QUIC_CID_MAX || at + n + 1 > end || !quic_read_cid(c, at, n, &l->destination_id, &l->destination_begin))
		return OUTCOME_QUIC_MALFORMED;
	l->destination_length = n;
	at += n;
	if (!cursor_copy(c, at, &n, sizeof(n)) || n > QUIC_CID_MAX || at + 1 + n > end ||
	    !quic_read_cid(c, at + 1, n, &l->source_id, &begin))
		return OUTCOME_QUIC_MALFORMED;
	return OUTCOME_CONTINUE;
}
