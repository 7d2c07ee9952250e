// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Tunnels, which are looked into with config.tunnels: MPLS (RFC 3032), IP in IP (RFC 2003, RFC 4213), GRE (RFC 2784,
// RFC 2890), EtherIP (RFC 3378), VXLAN (RFC 7348), GENEVE (RFC 8926) and GTP-U (3GPP TS 29.281). The innermost packet
// is measured.
//
// The walk from one header to the next is a sequence of steps. An EtherType names the next header, also where the
// header before has another number for it. The walk keeps its position in the packet, where the verifier does not track
// it: it then verifies one step, and not one for each way to get there.
#pragma once

#include "link.h"
#include "udp.h"

#define TUNNEL_STEPS_MAX 16

#define ETHERTYPE_ETHERNET bpf_htons(0x6558) // Transparent Ethernet Bridging
#define ETHERTYPE_ERSPAN bpf_htons(0x88be) // mirrored by a switch: Ethernet after eight bytes, or none (type I)

#define GRE_CHECKSUM bpf_htons(0x8000)
#define GRE_KEY bpf_htons(0x2000)
#define GRE_SEQUENCE bpf_htons(0x1000)
#define GRE_OTHER bpf_htons(0x4807) // source routes and other versions
#define ERSPAN_LENGTH 8

#define MPLS_BOTTOM bpf_htonl(0x00000100)
#define MPLS_CONTROL_WORD 4 // RFC 4385: precedes the Ethernet frame of a pseudowire

#define VXLAN_PORT 4789
#define VXLAN_PORT_OLD 8472 // of Linux, from before there was the other
#define GENEVE_PORT 6081
#define GTPU_PORT 2152

#define VXLAN_HAS_VNI 0x08
#define GENEVE_VERSION 0xc0
#define GENEVE_OPTIONS 0x3f // in words

#define GTPU_VERSION_TYPE 0xf0
#define GTPU_VERSION_1 0x30
#define GTPU_OPTIONAL 0x07 // any of these bits: four more bytes follow
#define GTPU_HAS_EXTENSION 0x04
#define GTPU_PACKET 255

// Next headers without an EtherType.
enum tunnel_type {
	TUNNEL_OTHER = 0x10000, // not IP
	TUNNEL_GTPU_EXTENSION,
};

struct gre {
	u16 flags;
	u16 type;
};

struct vxlan {
	u8 flags;
	u8 reserved[3];
	u32 vni;
};

struct geneve {
	u8 version_options;
	u8 flags;
	u16 type;
	u32 vni;
};

struct gtpu {
	u8 flags;
	u8 type;
	u16 length;
	u32 tunnel;
};

struct gtpu_optional {
	u16 sequence;
	u8 number;
	u8 next; // type of the first extension header, 0 if none
};

// tunnel_next notes the next header.
INLINE enum outcome tunnel_next(struct packet *p, u32 type, u32 at)
{
	p->next_type = type ?: TUNNEL_OTHER;
	p->next_at = at;
	return OUTCOME_CONTINUE;
}

// tunnel_end ends the walk: p->at is the transport header of the innermost packet.
INLINE enum outcome tunnel_end(struct packet *p)
{
	p->next_type = 0;
	return OUTCOME_CONTINUE;
}

// tunnel_next_ip notes an IP packet that only names its own version.
INLINE enum outcome tunnel_next_ip(struct cursor *c, struct packet *p, u32 at)
{
	u8 version;

	if (!cursor_read(c, at, &version, sizeof(version)))
		return OUTCOME_TUNNEL_MALFORMED;
	version >>= 4;
	return tunnel_next(p, version == 4 ? ETHERTYPE_IPV4 : version == 6 ? ETHERTYPE_IPV6 : 0, at);
}

INLINE enum outcome tunnel_gre(struct cursor *c, struct packet *p)
{
	u32 at = p->at + sizeof(struct gre);
	struct gre h;

	if (!cursor_read(c, p->at, &h, sizeof(h)))
		return OUTCOME_TUNNEL_MALFORMED;
	if (h.flags & GRE_OTHER)
		return OUTCOME_TUNNEL;
	at += (h.flags & GRE_CHECKSUM ? 4 : 0) + (h.flags & GRE_KEY ? 4 : 0) + (h.flags & GRE_SEQUENCE ? 4 : 0);
	if (h.type != ETHERTYPE_ERSPAN)
		return tunnel_next(p, h.type, at);
	return tunnel_next(p, ETHERTYPE_ETHERNET, at + (h.flags & GRE_SEQUENCE ? ERSPAN_LENGTH : 0));
}

INLINE enum outcome tunnel_etherip(struct cursor *c, struct packet *p)
{
	u16 version;

	if (!cursor_read(c, p->at, &version, sizeof(version)) || version != bpf_htons(0x3000))
		return OUTCOME_TUNNEL_MALFORMED;
	return tunnel_next(p, ETHERTYPE_ETHERNET, p->at + sizeof(version));
}

INLINE enum outcome tunnel_vxlan(struct cursor *c, struct packet *p, u32 at)
{
	struct vxlan h;

	if (!cursor_read(c, at, &h, sizeof(h)) || !(h.flags & VXLAN_HAS_VNI))
		return tunnel_end(p);
	p->vni = bpf_ntohl(h.vni) >> 8;
	return tunnel_next(p, ETHERTYPE_ETHERNET, at + sizeof(h));
}

INLINE enum outcome tunnel_geneve(struct cursor *c, struct packet *p, u32 at)
{
	struct geneve h;

	if (!cursor_read(c, at, &h, sizeof(h)) || h.version_options & GENEVE_VERSION)
		return tunnel_end(p);
	p->vni = bpf_ntohl(h.vni) >> 8;
	return tunnel_next(p, h.type, at + sizeof(h) + (h.version_options & GENEVE_OPTIONS) * 4);
}

// tunnel_gtpu_inner notes the next header after one whose last field is the type of an extension header.
INLINE enum outcome tunnel_gtpu_inner(struct cursor *c, struct packet *p, u8 extension, u32 at)
{
	return extension ? tunnel_next(p, TUNNEL_GTPU_EXTENSION, at) : tunnel_next_ip(c, p, at);
}

// tunnel_gtpu_extension steps over an extension header. It begins with its length in words, and ends with the type of
// the next.
INLINE enum outcome tunnel_gtpu_extension(struct cursor *c, struct packet *p)
{
	u8 words, next;
	u32 end;

	if (!cursor_read(c, c->at, &words, sizeof(words)) || !words)
		return OUTCOME_TUNNEL_MALFORMED;
	end = c->at + words * 4;
	if (!cursor_read(c, end - sizeof(next), &next, sizeof(next)))
		return OUTCOME_TUNNEL_MALFORMED;
	return tunnel_gtpu_inner(c, p, next, end);
}

// tunnel_gtpu looks into packets of users. Messages between the ends of the tunnel are measured like other UDP.
INLINE enum outcome tunnel_gtpu(struct cursor *c, struct packet *p, u32 at)
{
	struct gtpu_optional o = {};
	struct gtpu h;

	if (!cursor_read(c, at, &h, sizeof(h)) || (h.flags & GTPU_VERSION_TYPE) != GTPU_VERSION_1 || h.type != GTPU_PACKET)
		return tunnel_end(p);
	at += sizeof(h);
	if (h.flags & GTPU_OPTIONAL) {
		if (!cursor_read(c, at, &o, sizeof(o)))
			return OUTCOME_TUNNEL_MALFORMED;
		at += sizeof(o);
	}
	return tunnel_gtpu_inner(c, p, h.flags & GTPU_HAS_EXTENSION ? o.next : 0, at);
}

// tunnel_port returns the UDP port that a packet was sent to, if that is one of a tunnel, else 0.
INLINE u16 tunnel_port(const struct cursor *c, const struct packet *p)
{
	struct udp_header h;
	u16 port;

	if (p->key.protocol != IP_UDP || !cursor_read(c, p->at, &h, sizeof(h)))
		return 0;
	port = bpf_ntohs(h.destination);
	return port == VXLAN_PORT || port == VXLAN_PORT_OLD || port == GENEVE_PORT || port == GTPU_PORT ? port : 0;
}

INLINE enum outcome tunnel_udp(struct cursor *c, struct packet *p)
{
	u32 at = p->at + sizeof(struct udp_header);

	switch (tunnel_port(c, p)) {
	case VXLAN_PORT:
	case VXLAN_PORT_OLD:
		return tunnel_vxlan(c, p, at);
	case GENEVE_PORT:
		return tunnel_geneve(c, p, at);
	case GTPU_PORT:
		return tunnel_gtpu(c, p, at);
	}
	return tunnel_end(p);
}

// tunnel_open steps over the headers between an IP header and the packet in it, if it carries a tunnel. The tunnel ends
// where the IP packet does.
INLINE enum outcome tunnel_open(struct cursor *c, struct packet *p)
{
	c->length = p->at + p->length;
	switch (p->key.protocol) {
	case IP_IPIP:
		return tunnel_next(p, ETHERTYPE_IPV4, p->at);
	case IP_IPV6:
		return tunnel_next(p, ETHERTYPE_IPV6, p->at);
	case IP_MPLS:
		return tunnel_next(p, ETHERTYPE_MPLS, p->at);
	case IP_GRE:
		return tunnel_gre(c, p);
	case IP_ETHERIP:
		return tunnel_etherip(c, p);
	case IP_UDP:
		return tunnel_udp(c, p);
	}
	return is_tunnel(p->key.protocol) ? OUTCOME_TUNNEL : tunnel_end(p);
}

// tunnel_label steps over one label. After the last one comes IP, or a pseudowire's control word, whose first four bits
// are 0.
INLINE enum outcome tunnel_label(struct cursor *c, struct packet *p)
{
	u32 label;
	u8 first;

	if (!cursor_next(c, &label, sizeof(label)))
		return OUTCOME_TUNNEL_MALFORMED;
	if (!(label & MPLS_BOTTOM))
		return tunnel_next(p, ETHERTYPE_MPLS, c->at);
	if (!cursor_read(c, c->at, &first, sizeof(first)))
		return OUTCOME_TUNNEL_MALFORMED;
	if (first >> 4)
		return tunnel_next_ip(c, p, c->at);
	return tunnel_next(p, ETHERTYPE_ETHERNET, c->at + MPLS_CONTROL_WORD);
}

// tunnel_frame steps over an Ethernet header, or a VLAN tag within the tunnel: both end with the type of what follows.
INLINE enum outcome tunnel_frame(struct cursor *c, struct packet *p, u32 length)
{
	u16 type;

	if (!cursor_read(c, c->at + length - sizeof(type), &type, sizeof(type)))
		return OUTCOME_TUNNEL_MALFORMED;
	return tunnel_next(p, type, c->at + length);
}

INLINE enum outcome tunnel_ip(struct cursor *c, struct packet *p)
{
	enum outcome outcome;

	p->ipv6 = p->next_type == ETHERTYPE_IPV6;
	outcome = ip_parse(c, p);
	return outcome && outcome != OUTCOME_TUNNEL ? outcome : tunnel_open(c, p);
}

INLINE enum outcome tunnel_pppoe(struct cursor *c, struct packet *p)
{
	enum outcome outcome;
	u16 type;

	outcome = link_pppoe(c, &type);
	return outcome ?: tunnel_next(p, type, c->at);
}

INLINE enum outcome tunnel_step(struct cursor *c, struct packet *p)
{
	u32 type = p->next_type;

	c->at = p->next_at;
	if (type == TUNNEL_GTPU_EXTENSION)
		return tunnel_gtpu_extension(c, p);
	if (type == ETHERTYPE_IPV4 || type == ETHERTYPE_IPV6)
		return tunnel_ip(c, p);
	if (is_mpls(type))
		return tunnel_label(c, p);
	if (type == ETHERTYPE_ETHERNET)
		return tunnel_frame(c, p, sizeof(struct ethernet));
	if (is_vlan(type))
		return tunnel_frame(c, p, sizeof(struct vlan_tag));
	if (type == ETHERTYPE_PPPOE_SESSION)
		return tunnel_pppoe(c, p);
	return p->at ? OUTCOME_TUNNEL_OTHER : OUTCOME_NOT_IP;
}

// tunnel_walk goes to the innermost packet, from a header that link_parse noted, or else from the IP header that was
// parsed.
INLINE enum outcome tunnel_walk(struct cursor *c, struct packet *p)
{
	enum outcome outcome = p->next_type ? OUTCOME_CONTINUE : tunnel_open(c, p);

	for (int i = 0; i < TUNNEL_STEPS_MAX && !outcome; i++) {
		if (!p->next_type)
			return OUTCOME_CONTINUE;
		outcome = tunnel_step(c, p);
	}
	return outcome || !p->next_type ? outcome : OUTCOME_TUNNEL_DEPTH;
}

GLOBAL enum outcome tunnel_walk_skb(struct __sk_buff *skb, struct packet *p)
{
	struct cursor c;

	if (!p)
		return OUTCOME_CONTINUE;
	cursor_of_skb(&c, skb);
	return tunnel_walk(&c, p);
}

GLOBAL enum outcome tunnel_walk_xdp(struct xdp_md *xdp, struct packet *p)
{
	struct cursor c;

	if (!p)
		return OUTCOME_CONTINUE;
	cursor_of_xdp(&c, xdp);
	return tunnel_walk(&c, p);
}

// tunnel_look looks into the packet if its link or IP header, whose outcome it gets, is followed by a tunnel.
INLINE enum outcome tunnel_look(struct cursor *c, struct packet *p, enum outcome outcome)
{
	if (outcome != OUTCOME_TUNNEL && (outcome || !tunnel_port(c, p)))
		return outcome;
	return c->xdp ? tunnel_walk_xdp(c->ctx, p) : tunnel_walk_skb(c->ctx, p);
}
