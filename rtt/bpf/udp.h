// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// UDP (RFC 768).
#pragma once

#include "ip.h"

struct udp_header {
	u16 source;
	u16 destination;
	u16 length;
	u16 checksum;
};

INLINE enum outcome udp_parse(struct cursor *c, struct packet *p)
{
	struct udp_header h;
	u32 length;

	if (p->length < sizeof(h) || !cursor_read(c, p->at, &h, sizeof(h)))
		return OUTCOME_UDP_MALFORMED;
	length = bpf_ntohs(h.length);
	if (length < sizeof(h) || length > p->length)
		return OUTCOME_UDP_MALFORMED;
	p->payload = length - sizeof(h);
	p->at += sizeof(h);
	packet_key(p, h.source, h.destination);
	return OUTCOME_CONTINUE;
}

// port_from returns the sender's port in network order, port_to the receiver's.
INLINE u16 port_from(const struct packet *p)
{
	return p->key.port[p->side & 1];
}

INLINE u16 port_to(const struct packet *p)
{
	return p->key.port[other(p->side)];
}
