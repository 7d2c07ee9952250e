// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The prefix that a downstream subgroup stream begins with: the WebTransport stream header, then SUBGROUP_HEADER with this
// hop's track alias. User space writes the same bytes (package relay), so that it can send them again.
#pragma once

#include "moqt.h"
#include "state.h"

#define MAX_PREFIX 64 // 16 of WebTransport, and 1 + 9 + 9 + 9 + 1

// write_prefix writes the prefix so that it ends at buf[end] and returns its length, or 0.
__noinline u32 write_prefix(struct scratch *c, u32 end, const struct subgroup *g, const struct path *path, u64 alias)
{
	if (!c || !g || !path || end < IN + PAYLOAD_AT)
		return 0;
	barrier_var(end); // else both bounds become one comparison that the verifier does not follow
	if (end > IN + PAYLOAD_AT + MAX_PAYLOAD)
		return 0;
	u8 *p = c->buf + end;
	u32 len = 0;

	p[-1] = g->priority;
	len = 1;
	if (g->header_type & SUBGROUP_ID_PRESENT)
		len += write_vi64_before(p - (len & 63), g->subgroup);
	len += write_vi64_before(p - (len & 63), g->group);
	len += write_vi64_before(p - (len & 63), alias);
	len++;
	p[-(s64)(len & 63)] = g->header_type;
	if (path->stream_prefix_len) {
		u64 *w = (u64 *)(p - (len & 63)) - 2;
		const u64 *prefix = (const u64 *)path->stream_prefix;
		w[0] = prefix[0];
		w[1] = prefix[1];
		len += path->stream_prefix_len & 15;
	}
	return len;
}
