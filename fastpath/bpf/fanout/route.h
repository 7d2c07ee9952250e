// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Where a copy goes: the subscriber's path, which user space sets, and the neighbour that the stack sends to.
#pragma once

#include "../shared/state.h"
#include "headers.h"

// find_route looks up how the claim's subscriber is reached.
//
// A clone inherits the place where the device begins the checksum (transport/offload.h). So a copy's headers must be
// as long as the headers of the packet that it is made from.
INLINE enum reason find_route(const struct scratch *c, const struct claim *cl, struct path **path, struct neighbor **n)
{
	*path = find_path(cl->subscriber);
	if (!*path)
		return COPY_NO_PATH;
	*n = bpf_map_lookup_elem(&neighbors, (*path)->daddr);
	if (!*n)
		return COPY_NO_NEIGHBOR;
	if (c->checksum_start && c->checksum_start != link_len(*n) + ((*path)->v6 ? 40 : 20))
		return COPY_CHECKSUM;
	return COPY_SENT;
}
