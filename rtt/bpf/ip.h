// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// IPv4 (RFC 791) and IPv6 with its extension headers (RFC 8200). Fragments are recognised, but not parsed further.
#pragma once

#include "packet.h"

// More than hosts send: RFC 8200 §4.1 recommends at most seven headers, including ESP.
#define IPV6_EXTENSIONS_MAX 6

#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_FRAGMENT_OFFSET 0x1fff
#define IPV6_FRAGMENT_MASK 0xfff9 // offset and the M flag

enum ip_protocol {
	IP_HOP_BY_HOP = 0,
	IP_ICMP = 1,
	IP_IPIP = 4,
	IP_TCP = 6,
	IP_UDP = 17,
	IP_IPV6 = 41,
	IP_ROUTING = 43,
	IP_FRAGMENT = 44,
	IP_GRE = 47,
	IP_AH = 51,
	IP_ICMPV6 = 58,
	IP_DESTINATION_OPTIONS = 60,
	IP_ETHERIP = 97,
	IP_L2TP = 115,
	IP_MOBILITY = 135,
	IP_MPLS = 137,
};

struct ipv4 {
	u8 version_ihl;
	u8 tos;
	u16 total_length;
	u16 id;
	u16 fragment;
	u8 ttl;
	u8 protocol;
	u16 checksum;
	u32 source;
	u32 destination;
};

struct ipv6 {
	u32 version_class_flow;
	u16 payload_length;
	u8 next;
	u8 hop_limit;
	union address source;
	union address destination;
};

struct ipv6_extension {
	u8 next;
	u8 length; // in units of 8 bytes, without the first 8; AH: of 4 bytes, without the first 8
	u16 fragment; // of a fragment header
	u32 fragment_id;
};

struct ipv6_routing {
	u8 next;
	u8 length;
	u8 type;
	u8 segments_left;
};

INLINE bool is_tunnel(u8 protocol)
{
	return protocol == IP_IPIP || protocol == IP_IPV6 || protocol == IP_GRE || protocol == IP_ETHERIP ||
	       protocol == IP_L2TP || protocol == IP_MPLS;
}

// ip_ends sets the position of the transport: length bytes from the cursor on, which must be in the packet. A packet
// over 64 KiB, which only segmentation offload makes, has a length of 0: its true length is the frame's.
INLINE bool ip_ends(const struct cursor *c, struct packet *p, bool oversize, u32 length)
{
	if (c->at > c->length)
		return false;
	p->at = c->at;
	p->length = oversize ? c->length - c->at : length;
	return p->length <= c->length - c->at;
}

INLINE void map_ipv4(union address *a, u32 address)
{
	a->words[0] = a->words[1] = 0;
	a->words[2] = bpf_htonl(0xffff);
	a->words[3] = address;
}

INLINE enum outcome ipv4_parse(struct cursor *c, struct packet *p)
{
	struct ipv4 h;
	u32 header, start = c->at, total;

	if (!cursor_next(c, &h, sizeof(h)) || h.version_ihl >> 4 != 4)
		return OUTCOME_IPV4_MALFORMED;
	header = (h.version_ihl & 0xf) * 4;
	total = bpf_ntohs(h.total_length);
	if (header < sizeof(h) || (total && total < header))
		return OUTCOME_IPV4_MALFORMED;
	c->at = start + header;
	if (!ip_ends(c, p, !total && c->length > 0xffff, total - header))
		return OUTCOME_IPV4_MALFORMED;
	map_ipv4(&p->key.address[0], h.source);
	map_ipv4(&p->key.address[1], h.destination);
	p->key.protocol = h.protocol;
	p->ecn = h.tos & 3;
	return bpf_ntohs(h.fragment) & (IPV4_MORE_FRAGMENTS | IPV4_FRAGMENT_OFFSET) ? OUTCOME_FRAGMENT : OUTCOME_CONTINUE;
}

// The walk over extension headers keeps its position in memory, where the verifier does not track it.
struct ipv6_walk {
	volatile u32 at; // of the next header
	volatile u8 type; // of the next header
	u8 pad[3];
};

INLINE bool is_extension(u8 type)
{
	return type == IP_HOP_BY_HOP || type == IP_ROUTING || type == IP_FRAGMENT || type == IP_AH ||
	       type == IP_DESTINATION_OPTIONS || type == IP_MOBILITY;
}

// ipv6_extension steps over one extension header.
INLINE enum outcome ipv6_extension(struct ipv6_walk *w, const struct ipv6_extension *h)
{
	// An atomic fragment (RFC 6946) is a whole packet.
	if (w->type == IP_FRAGMENT && bpf_ntohs(h->fragment) & IPV6_FRAGMENT_MASK)
		return OUTCOME_FRAGMENT;
	// The destination of a packet on its way through a source route is not the host that will reply.
	if (w->type == IP_ROUTING && ((const struct ipv6_routing *)h)->segments_left)
		return OUTCOME_SOURCE_ROUTED;
	w->at += w->type == IP_FRAGMENT ? 8 : w->type == IP_AH ? (h->length + 2) * 4 : (h->length + 1) * 8;
	w->type = h->next;
	return OUTCOME_CONTINUE;
}

INLINE enum outcome ipv6_walk(void *ctx, bool xdp, struct ipv6_walk *w)
{
	struct cursor c = { .ctx = ctx, .xdp = xdp, .batched = in_batch() };
	struct ipv6_extension h;
	enum outcome outcome;

	if (!w)
		return OUTCOME_IPV6_MALFORMED;
	for (int i = 0; i < IPV6_EXTENSIONS_MAX; i++) {
		if (!is_extension(w->type))
			return OUTCOME_CONTINUE;
		if (!cursor_copy(&c, w->at, &h, sizeof(h)))
			return OUTCOME_IPV6_MALFORMED;
		outcome = ipv6_extension(w, &h);
		if (outcome)
			return outcome;
	}
	return is_extension(w->type) ? OUTCOME_IPV6_EXTENSIONS : OUTCOME_CONTINUE;
}

GLOBAL enum outcome ipv6_walk_skb(struct __sk_buff *skb, struct ipv6_walk *w)
{
	return ipv6_walk(skb, false, w);
}

GLOBAL enum outcome ipv6_walk_xdp(struct xdp_md *xdp, struct ipv6_walk *w)
{
	return ipv6_walk(xdp, true, w);
}

// ipv6_extensions moves the cursor past the last extension header and sets *next to the type of the next header.
INLINE enum outcome ipv6_extensions(struct cursor *c, u8 *next)
{
	struct ipv6_walk w = { .at = c->at, .type = *next };
	enum outcome outcome;

	if (!is_extension(*next))
		return OUTCOME_CONTINUE;
	outcome = c->xdp ? ipv6_walk_xdp(c->ctx, &w) : ipv6_walk_skb(c->ctx, &w);
	c->at = w.at;
	*next = w.type;
	return outcome;
}

INLINE enum outcome ipv6_parse(struct cursor *c, struct packet *p)
{
	enum outcome outcome;
	struct ipv6 h;
	u32 start, payload;
	u8 next;

	if (!cursor_next(c, &h, sizeof(h)) || bpf_ntohl(h.version_class_flow) >> 28 != 6)
		return OUTCOME_IPV6_MALFORMED;
	start = c->at;
	payload = bpf_ntohs(h.payload_length);
	if (!ip_ends(c, p, !payload && c->length > 0xffff, payload))
		return OUTCOME_IPV6_MALFORMED;
	p->key.address[0] = h.source;
	p->key.address[1] = h.destination;
	p->ecn = bpf_ntohl(h.version_class_flow) >> 20 & 3;
	next = h.next;
	outcome = ipv6_extensions(c, &next);
	p->key.protocol = next;
	if (outcome)
		return outcome;
	if (c->at - start > p->length)
		return OUTCOME_IPV6_MALFORMED;
	p->length -= c->at - start;
	p->at = c->at;
	return OUTCOME_CONTINUE;
}

// ip_parse moves the cursor to the transport header.
INLINE enum outcome ip_parse(struct cursor *c, struct packet *p)
{
	enum outcome outcome = p->ipv6 ? ipv6_parse(c, p) : ipv4_parse(c, p);

	if (outcome)
		return outcome;
	return is_tunnel(p->key.protocol) ? OUTCOME_TUNNEL : OUTCOME_CONTINUE;
}

INLINE enum transport ip_transport(const struct packet *p)
{
	switch (p->key.protocol) {
	case IP_TCP:
		return TRANSPORT_TCP;
	case IP_UDP:
		return TRANSPORT_UDP;
	case IP_ICMP:
		return TRANSPORT_ICMP;
	case IP_ICMPV6:
		return TRANSPORT_ICMPV6;
	}
	return TRANSPORT_OTHER;
}
