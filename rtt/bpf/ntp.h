// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// NTP, versions 1 to 4, between clients and servers (RFC 5905 §7.3, §9.2). A server returns the time at which the
// client says that it sent its message, as the origin timestamp. Clients may send a random number instead. Interleaved
// responses (RFC 9769) return something else, and match nothing.
#pragma once

#include "message.h"

#define NTP_PORT bpf_htons(123)

#define NTP_VERSION_MAX 4
#define NTP_MODE_CLIENT 3
#define NTP_MODE_SERVER 4

#define NTP_LENGTH_MIN 48
#define NTP_ORIGIN_AT 24
#define NTP_TRANSMIT_AT 40

INLINE bool is_ntp(const struct cursor *c, const struct packet *p)
{
	return is_port(p, NTP_PORT);
}

// ntp_read reads the mode and the timestamp that a client's message and its response have in common.
INLINE enum outcome ntp_read(const struct cursor *c, const struct packet *p, u32 at, struct message *m)
{
	u8 first, version, mode;

	if (!m->length || !cursor_copy(c, at, &first, sizeof(first)))
		return OUTCOME_NTP_MALFORMED;
	version = first >> 3 & 7;
	mode = first & 7;
	if (!version || version > NTP_VERSION_MAX || (mode != NTP_MODE_CLIENT && mode != NTP_MODE_SERVER))
		return OUTCOME_NTP_OTHER;
	m->response = mode == NTP_MODE_SERVER;
	if (server_port(p, m) != NTP_PORT)
		return OUTCOME_NTP_OTHER;
	if (m->length < NTP_LENGTH_MIN)
		return OUTCOME_NTP_MALFORMED;
	if (!cursor_copy(c, at + (m->response ? NTP_ORIGIN_AT : NTP_TRANSMIT_AT), &m->id, sizeof(m->id)))
		return OUTCOME_NTP_MALFORMED;
	return OUTCOME_CONTINUE;
}
