// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Where datagrams go, and where they come from.
#pragma once

#include <sluice/types.h>

// A remote UDP endpoint.
struct endpoint {
	u8 addr[16]; // IPv4 in the first four bytes
	__be16 port;
	u8 v6, pad;
};
_Static_assert(sizeof(struct endpoint) == 20, "endpoint is a part of udp_path");

// The addresses and ports of the datagrams between a peer (destination) and the relay (source). saddr is where the
// relay's packets come from, and where the peer's go to.
struct udp_path {
	u8 saddr[16], daddr[16]; // IPv4 in the first four bytes
	__be16 dport;
	u8 v6;
	u8 endpoint_pad; // from daddr to here it is a struct endpoint
	__be16 sport;
};
_Static_assert(sizeof(struct udp_path) == 38, "udp_path has no padding");
