// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Where a copy goes: the peer's path, which user space sets, and the neighbour that the stack sends to.
#pragma once

#include "../shared/reason.h"
#include "headers.h"

// find_neighbor looks up how a peer is reached. It returns COPY_SENT if it knows.
INLINE enum reason find_neighbor(const struct udp_path *path, struct neighbor **n)
{
	*n = bpf_map_lookup_elem(&neighbors, path);
	return *n ? COPY_SENT : COPY_NO_NEIGHBOR;
}
