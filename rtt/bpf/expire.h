// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The clean-up of the tables. User space runs it every interval: in process context, so that a large table does not
// delay packets.
#pragma once

#include "flow_table.h"
#include "query.h"

#define FLOW_TIMEOUT (300 * SECOND)
#define UDP_TIMEOUT (120 * SECOND) // RFC 4787 REQ-5: the least that a NAT grants
#define UNCONFIRMED_TIMEOUT (30 * SECOND) // no timeout of a flow is shorter

// The tables that are cleaned up.
enum expiring {
	EXPIRING_FLOWS,
	EXPIRING_QUERIES,
	EXPIRING_COUNT,
};

// When an entry of a table can time out next, at the earliest: before that, user space does not look for any.
u64 next_expiry[EXPIRING_COUNT];

// expiry_begin is called before the entries are looked at. An entry that is added meanwhile may not be seen. It cannot
// time out before the shortest timeout has passed. One second is taken off because the coarse clock may be late.
INLINE void expiry_begin(enum expiring table, u64 now, u64 shortest)
{
	next_expiry[table] = now + shortest - SECOND;
}

INLINE void expiry_note(enum expiring table, u64 at)
{
	if (at < next_expiry[table])
		next_expiry[table] = at;
}

INLINE u64 flow_timeout(const struct flow_key *key, const struct flow *f)
{
	if (!flow_is_confirmed(key, f))
		return UNCONFIRMED_TIMEOUT;
	return key->protocol == IP_UDP ? UDP_TIMEOUT : FLOW_TIMEOUT;
}

// flow_expire deletes the flow if it has timed out.
INLINE void flow_expire(const struct flow_key *key, const struct flow *f, u64 now)
{
	u64 end = flow_seen(f) + flow_timeout(key, f);

	if (now <= end) {
		expiry_note(EXPIRING_FLOWS, end);
		return;
	}
	for (u8 side = 0; side < 2; side++)
		if (f->side[side].state == SIDE_OPEN)
			flow_ended(true, key, side, now);
	if (bpf_map_delete_elem(&flows, key) == 0)
		tally(TALLY_FLOWS_EXPIRED);
}

// query_expire deletes a query that was not answered in time.
INLINE void query_expire(const struct query_key *key, const struct query *q, u64 now)
{
	u64 end = q->time + QUERY_TIMEOUT;

	if (now <= end) {
		expiry_note(EXPIRING_QUERIES, end);
		return;
	}
	if (query_delete(key))
		tally(TALLY_QUERIES_EXPIRED);
}
