// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// DNS over TCP, and the outcomes of encrypted DNS, which is not looked into.
#pragma once

#include "matchers.h"

// DNS_MESSAGES_MAX is how many messages of a TCP segment are measured: clients pipeline few (RFC 7766 §6.2.1).
#define DNS_MESSAGES_MAX 4

// dns_over_tcp walks the messages of a segment, each after its length (RFC 1035 §4.2.2). A segment that does not begin
// with a message matches nothing. The last message may continue in the next segment if its question is complete.
INLINE enum outcome dns_over_tcp(struct cursor *c, struct packet *p, u32 at)
{
	u32 end = at + p->payload, left, n;
	enum outcome outcome = OUTCOME_DNS_OTHER;
	u16 length;

	for (int i = 0; i < DNS_MESSAGES_MAX; i++) {
		if (at + sizeof(length) > end || !cursor_copy(c, at, &length, sizeof(length)))
			break;
		at += sizeof(length);
		left = end - at;
		n = bpf_ntohs(length);
		if (n > left && port_to(p) == DNS_PORT)
			break; // a cut query is not measured: these may be bytes from the middle of a message
		left = n < left ? n : left;
		outcome = message(c, p, at, left, METHOD_DNS);
		at += n;
	}
	return outcome;
}

#define DNS_ENCRYPTED_PORT bpf_htons(853) // RFC 7858: over TLS; RFC 9250: over QUIC

// dns_outcome_tcp returns the outcome of a segment that TCP has an outcome for, and DNS perhaps too.
INLINE enum outcome dns_outcome_tcp(const struct packet *p, enum outcome dns, enum outcome tcp)
{
	if (dns == OUTCOME_DNS)
		return OUTCOME_DNS_OVER_TCP;
	if (tcp != OUTCOME_TCP && tcp != OUTCOME_OTHER_PROTOCOL)
		return tcp;
	if (is_port(p, DNS_ENCRYPTED_PORT))
		return OUTCOME_DNS_OVER_TLS;
	return config.tcp ? tcp : dns ?: tcp;
}

INLINE enum outcome dns_outcome_udp(const struct packet *p, enum outcome udp)
{
	return (udp == OUTCOME_QUIC || udp == OUTCOME_UDP_OTHER) && is_port(p, DNS_ENCRYPTED_PORT) ? OUTCOME_DNS_OVER_QUIC :
												     udp;
}
