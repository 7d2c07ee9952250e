// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// STUN over UDP (RFC 8489 §5), on any port: the checks of ICE and the requests of TURN have no port of their own. The
// magic cookie tells a message from other UDP, and its first two bits from QUIC and RTP (RFC 7983 §7).
#pragma once

#include "message.h"

#define STUN_COOKIE bpf_htonl(0x2112a442)
#define STUN_NOT_IN_TYPE bpf_htons(0xc000)

#define STUN_CLASS 0x0110
#define STUN_REQUEST 0x0000
#define STUN_INDICATION 0x0010

struct stun_start {
	u16 type;
	u16 length; // after the header
	u32 cookie;
};

struct stun_header {
	struct stun_start start;
	u64 id; // transaction ID
	u32 id_rest;
} __attribute__((packed));
_Static_assert(sizeof(struct stun_header) == 20, "stun_header is as on the wire");

INLINE bool is_stun(const struct cursor *c, const struct packet *p)
{
	struct stun_start s;

	return p->payload >= sizeof(struct stun_header) && cursor_read(c, p->at, &s, sizeof(s)) &&
	       !(s.type & STUN_NOT_IN_TYPE) && s.cookie == STUN_COOKIE;
}

// stun_read reads the class and the transaction ID. Attributes end on a multiple of four bytes, with the datagram.
INLINE enum outcome stun_read(const struct cursor *c, const struct packet *p, u32 at, struct message *m)
{
	struct stun_header h;
	u32 length;
	u16 class;

	if (!cursor_copy(c, at, &h, sizeof(h)))
		return OUTCOME_STUN_MALFORMED;
	length = bpf_ntohs(h.start.length);
	if (length % 4 || sizeof(h) + length != m->length)
		return OUTCOME_STUN_MALFORMED;
	class = bpf_ntohs(h.start.type) & STUN_CLASS;
	if (class == STUN_INDICATION)
		return OUTCOME_STUN_OTHER;
	m->response = class != STUN_REQUEST;
	m->id = h.id;
	m->id_rest = h.id_rest;
	return OUTCOME_CONTINUE;
}
