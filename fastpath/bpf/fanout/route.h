// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Where a copy goes: the peer's path, which user space sets, and the neighbour that the stack sends to.
#pragma once

#include "../shared/reason.h"
#include "headers.h"

// find_neighbor looks up how a peer is reached. It returns COPY_SENT if it knows.
//
// A clone inherits the place where the device begins the checksum (transport/offload.h). So a copy's headers must be
// as long as the headers of the packet that it is made from.
INLINE enum reason find_neighbor(const struct scratch *c, const struct udp_path *path, struct neighbor **n)
{
	*n = bpf_map_lookup_elem(&neighbors, path->daddr);
	if (!*n)
		return COPY_NO_NEIGHBOR;
	if (c->checksum_start && c->checksum_start != link_len(*n) + (path->v6 ? 40 : 20))
		return COPY_CHECKSUM;
	return COPY_SENT;
}
