// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The keys of an aggregate.
#pragma once

#include "common.h"

enum prefix_flag {
	PREFIX_IPV6 = 1, // the prefix is one of IPv6
	PREFIX_PEER_IPV6 = 2,
	// Of RTTs only: an aggregate has a histogram for each of these.
	PREFIX_TO_PEERS = 4, // to the peers of the prefix's hosts: the other part of the path
	PREFIX_LOADED = 8, // under load
	PREFIX_UNPLACED = 16, // counted together because there is no place: with PREFIX_LOADED unknown
	PREFIX_QUERIES = 32, // of DNS, NTP and STUN: a server may look for its answer, so they are no RTTs of the path
	PREFIX_ONE_DIRECTION = 64, // of the whole path, because packets of one direction only are seen
	PREFIX_ANY_LOAD = PREFIX_QUERIES | PREFIX_ONE_DIRECTION, // are not told apart by load
	PREFIX_RTT_FLAGS = PREFIX_TO_PEERS | PREFIX_LOADED | PREFIX_UNPLACED | PREFIX_ANY_LOAD,
};

// Keys that the settings do not ask for are 0.
struct prefix_key {
	u64 prefix; // an IPv4 prefix, the upper half of an IPv6 one, or the number of a group
	u64 peer; // the same of the other end
	u32 interface;
	u16 vlan; // outermost
	u16 inner_vlan;
	u8 transport; // enum transport
	u8 flags;
	u8 pad[6];
};
_Static_assert(sizeof(struct prefix_key) == 32, "prefix_key has no hidden padding");
