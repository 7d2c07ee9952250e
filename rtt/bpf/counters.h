// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Every packet leaves by exactly one outcome; tallies count what happened on the way. Go has a label for each.
#pragma once

#include "settings.h"

enum outcome {
	OUTCOME_CONTINUE, // not an exit: the next parser goes on
	// The packet is measured.
	OUTCOME_TCP,
	OUTCOME_ICMP,
	OUTCOME_DNS,
	OUTCOME_DNS_OVER_TCP,
	OUTCOME_DNS_OVER_TLS, // as TCP, if that is switched on
	OUTCOME_DNS_OVER_QUIC, // as QUIC, if that is switched on
	OUTCOME_QUIC,
	OUTCOME_NTP,
	OUTCOME_STUN,
	// It is well-formed, but not measured.
	OUTCOME_NOT_IP,
	OUTCOME_OTHER_PROTOCOL, // or one that is switched off
	OUTCOME_FRAGMENT,
	OUTCOME_TUNNEL, // that is not looked into
	OUTCOME_TUNNEL_OTHER, // in a tunnel, and not IP
	OUTCOME_SOURCE_ROUTED,
	OUTCOME_LOCAL, // for this host, without --include-local, and of no known flow
	OUTCOME_TCP_SYN, // without --include-syn
	OUTCOME_TCP_NO_FLOW, // may not create a flow: pure ACK, FIN, RST
	OUTCOME_ICMP_NO_ECHO,
	OUTCOME_ICMP_NO_FLOW,
	OUTCOME_UDP_OTHER,
	OUTCOME_DNS_OTHER, // not a standard query of one question, or its response
	OUTCOME_DNS_NO_QUERY, // a response without a known query
	OUTCOME_NTP_OTHER, // not between a client and a server
	OUTCOME_NTP_NO_QUERY,
	OUTCOME_STUN_OTHER, // an indication, which has no response
	OUTCOME_STUN_NO_QUERY,
	OUTCOME_QUIC_NO_FLOW, // looks like QUIC, but its handshake was not seen
	OUTCOME_FLOWS_FULL,
	OUTCOME_QUERIES_FULL,
	OUTCOME_QUERIES_SHARE, // its sender has its share of the query table
	// It is malformed.
	OUTCOME_LINK_TRUNCATED,
	OUTCOME_VLAN_DEPTH,
	OUTCOME_PPPOE_MALFORMED,
	OUTCOME_TUNNEL_MALFORMED,
	OUTCOME_TUNNEL_DEPTH, // more headers than are followed
	OUTCOME_IPV4_MALFORMED,
	OUTCOME_IPV6_MALFORMED,
	OUTCOME_IPV6_EXTENSIONS, // more than are followed
	OUTCOME_TCP_MALFORMED,
	OUTCOME_TCP_OPTIONS_MALFORMED,
	OUTCOME_UDP_MALFORMED,
	OUTCOME_ICMP_MALFORMED,
	OUTCOME_DNS_MALFORMED,
	OUTCOME_NTP_MALFORMED,
	OUTCOME_STUN_MALFORMED,
	OUTCOME_QUIC_MALFORMED,
	OUTCOME_COUNT,
};

enum tally {
	TALLY_FLOWS_CREATED,
	TALLY_FLOWS_DELETED,
	TALLY_FLOWS_EXPIRED,
	TALLY_FLOWS_FULL,
	TALLY_FLOWS_EVICTED, // a flow that is not confirmed, or is silent, gave way to a newer one
	TALLY_FLOWS_MOVED, // QUIC connections that went on at other addresses
	TALLY_STAMPS,
	TALLY_STAMPS_EVICTED, // a stamp that could still be answered was replaced by a newer one
	TALLY_STAMPS_LIMITED, // not taken, because of the rate limit
	TALLY_STAMPS_ONE_DIRECTION, // not taken, because packets of the other side are not seen
	TALLY_STAMPS_AMBIGUOUS, // withdrawn, because their packet was sent twice
	TALLY_RTTS,
	TALLY_RTTS_TIGHTENED, // a later packet that the same ACK covers bounds the RTT better
	TALLY_RTTS_LATE, // not reported: negative, or longer than the lifetime of a stamp
	TALLY_RTTS_ONE_DIRECTION, // of the whole path, because only one direction is seen
	TALLY_RTTS_AMBIGUOUS, // not reported: the reply may answer either of two packets
	TALLY_ECHOES_OTHER_CLOCK, // of one direction, and not used: no clock of a millisecond explains the timestamps
	TALLY_RETRANSMISSIONS,
	TALLY_QUERIES_FULL,
	TALLY_QUERIES_SHARE, // not added: their sender has its share of the table
	TALLY_QUERIES_REPEATED,
	TALLY_QUERIES_EXPIRED,
	TALLY_SPIN_EDGES, // in turn
	TALLY_SPIN_STRAYS, // edges out of turn
	TALLY_SPIN_DISTURBED, // samples rejected because a stray edge came between
	TALLY_SPIN_BELOW_BASE, // samples rejected because they are far below the handshake's RTT
	TALLY_LOSS_BLOCKS, // blocks of QUIC packets whose losses are counted
	TALLY_PREFIXES_FULL,
	TALLY_EVENTS,
	TALLY_EVENTS_LOST,
	TALLY_COUNT,
};

struct traffic {
	u64 packets;
	u64 bytes;
};

enum transport {
	TRANSPORT_NOT_IP, // or with a malformed IP header
	TRANSPORT_TCP,
	TRANSPORT_UDP,
	TRANSPORT_ICMP,
	TRANSPORT_ICMPV6,
	TRANSPORT_OTHER,
	TRANSPORT_COUNT,
};

struct counter_set {
	u64 outcome[OUTCOME_COUNT];
	u64 tally[TALLY_COUNT];
	struct traffic transport[TRANSPORT_COUNT];
	struct traffic ecn[4]; // by the codepoint of RFC 3168: Not-ECT, ECT(1), ECT(0), CE
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counter_set);
} counters SEC(".maps");

INLINE struct counter_set *counters_get(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

GLOBAL int tally_add(enum tally tally, u64 n)
{
	struct counter_set *c = counters_get();

	if (c && tally < TALLY_COUNT)
		c->tally[tally] += n;
	return 0;
}

INLINE void tally(enum tally which)
{
	tally_add(which, 1);
}

// tally_interrupted adds to a tally that packets, iterators and the flush share: they can interrupt one another.
INLINE void tally_interrupted(enum tally which, u64 n)
{
	struct counter_set *c = counters_get();

	if (c)
		__sync_fetch_and_add(&c->tally[which], n);
}
