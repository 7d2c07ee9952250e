// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// A message of a request-response protocol, as its parser has read it: of DNS, NTP or STUN. What asks is called a query
// in all of them.
#pragma once

#include "udp.h"

// One message. A query and its response have the same identifier of up to 96 bits.
struct message {
	u64 id; // DNS: hash of the question
	u32 id_rest; // DNS: the id
	u32 length; // of the message, as far as this packet holds it
	u16 query_type; // DNS
	u8 rcode; // DNS
	u8 method; // enum method
	u8 measured; // enum outcome of a message that is measured
	u8 unmatched; // enum outcome of a response without a known query
	bool response;
	bool truncated; // DNS
};
_Static_assert(sizeof(struct message) == 24, "message has no hidden padding");
_Static_assert(OUTCOME_COUNT <= 256, "an outcome fits in a byte");

// is_port reports whether one end of the packet has the port.
INLINE bool is_port(const struct packet *p, u16 port)
{
	return p->key.port[0] == port || p->key.port[1] == port;
}

// server_port returns the port of the end that answers, in network order.
INLINE u16 server_port(const struct packet *p, const struct message *m)
{
	return m->response ? port_from(p) : port_to(p);
}
