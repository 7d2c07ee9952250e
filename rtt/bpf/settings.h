// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The settings, which user space makes at load time. The verifier knows them, and removes code that is switched off.
#pragma once

#include "common.h"

struct settings {
	u64 stamp_interval; // least time between two stamps of one side of a flow, ns; 0: none
	u64 rtt_rate; // the same in 1/1024 of the flow's RTT; replaces stamp_interval once an RTT is known
	u64 bin_width; // of the histograms, ns; 0: logarithmic bins
	u64 load; // bytes in a second, from which on RTTs are counted as under load; 0: not told apart
	u64 ipv6_mask; // of the upper half of a prefix, in network order
	u32 ipv4_mask; // in network order
	u32 stamp_sets; // power of two
	u32 recent_flows; // power of two
	u32 query_share; // number of queries that one peer may have waiting
	u8 tcp, icmp, dns, quic, ntp, stun; // protocols that are measured
	u8 syn; // stamp SYNs too, which lets them create flows
	u8 local; // stamp packets for this host, too
	u8 smoothed; // rtt_rate is a multiple of the smoothed RTT, not of the minimum
	u8 merge; // flows may come and go by different interfaces or VLANs
	u8 vlans; // the VLAN is part of a flow's key; false where one hook cannot see it
	u8 events; // report every RTT and every flow
	u8 aggregate; // keep histograms and counters for each prefix
	u8 reverse; // aggregate by the destination of the reply
	u8 traffic; // count protocols and ECN
	u8 replay; // the packets come from a capture, and their times from the variable replay
	u8 batch; // events that are handed to user space at once
	u8 groups; // aggregate by the groups that a table gives prefixes, not by prefixes of one length
	u8 by_pair, by_vlan, by_interface, by_transport; // further keys of aggregates
	u8 parts; // aggregate the RTTs of both parts of the path
	u8 tunnels; // look into tunnels
};
_Static_assert(sizeof(struct settings) == 5 * 8 + 4 * 4 + 24, "settings has no hidden padding");

volatile const struct settings config;
