// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// From the start of the frame to the IP header: Ethernet II, up to two VLAN tags (IEEE 802.1Q, 802.1ad) and PPPoE
// sessions (RFC 2516). Devices without a link header start with IP. MPLS is a tunnel: see tunnel.h.
#pragma once

#include "packet.h"

#define VLAN_TAGS_MAX 2
#define VLAN_ID 0x0fff

#define ETHERTYPE_IPV4 bpf_htons(0x0800)
#define ETHERTYPE_IPV6 bpf_htons(0x86dd)
#define ETHERTYPE_VLAN bpf_htons(0x8100)
#define ETHERTYPE_SERVICE_VLAN bpf_htons(0x88a8)
#define ETHERTYPE_OLD_SERVICE_VLAN bpf_htons(0x9100) // from before 802.1ad
#define ETHERTYPE_MPLS bpf_htons(0x8847)
#define ETHERTYPE_MPLS_MULTICAST bpf_htons(0x8848)
#define ETHERTYPE_PPPOE_SESSION bpf_htons(0x8864)

#define PPPOE_VERSION_TYPE 0x11
#define PPPOE_CODE_SESSION 0
#define PPP_IPV4 bpf_htons(0x0021)
#define PPP_IPV6 bpf_htons(0x0057)

struct ethernet {
	u8 destination[6];
	u8 source[6];
	u16 type;
};

struct vlan_tag {
	u16 control;
	u16 type;
};

struct pppoe {
	u8 version_type;
	u8 code;
	u16 session;
	u16 length;
	u16 protocol; // of the PPP frame
} __attribute__((packed));

INLINE bool is_vlan(u32 type)
{
	return type == ETHERTYPE_VLAN || type == ETHERTYPE_SERVICE_VLAN || type == ETHERTYPE_OLD_SERVICE_VLAN;
}

INLINE bool is_mpls(u32 type)
{
	return type == ETHERTYPE_MPLS || type == ETHERTYPE_MPLS_MULTICAST;
}

// link_vlan notes a tag, from the outermost to the innermost. The device may have taken one off before. A tag that has
// only a priority has the ID 0 (IEEE 802.1Q).
INLINE void link_vlan(struct packet *p, u16 id)
{
	if (!p->vlan)
		p->vlan = id;
	else if (!p->inner_vlan)
		p->inner_vlan = id;
}

INLINE enum outcome link_vlans(struct cursor *c, struct packet *p, u16 *type)
{
	struct vlan_tag tag;

	for (int i = 0; i < VLAN_TAGS_MAX && is_vlan(*type); i++) {
		if (!cursor_next(c, &tag, sizeof(tag)))
			return OUTCOME_LINK_TRUNCATED;
		link_vlan(p, bpf_ntohs(tag.control) & VLAN_ID);
		*type = tag.type;
	}
	return is_vlan(*type) ? OUTCOME_VLAN_DEPTH : OUTCOME_CONTINUE;
}

INLINE enum outcome link_pppoe(struct cursor *c, u16 *type)
{
	struct pppoe h;

	if (!cursor_next(c, &h, sizeof(h)) || h.version_type != PPPOE_VERSION_TYPE || h.code != PPPOE_CODE_SESSION)
		return OUTCOME_PPPOE_MALFORMED;
	*type = h.protocol == PPP_IPV4 ? ETHERTYPE_IPV4 : h.protocol == PPP_IPV6 ? ETHERTYPE_IPV6 : 0;
	return OUTCOME_CONTINUE;
}

// link_parse moves the cursor to the IP header and sets p->ipv6. Labels of MPLS are left to tunnel_walk.
INLINE enum outcome link_parse(struct cursor *c, struct packet *p)
{
	enum outcome outcome;
	struct ethernet h;
	u16 type;

	if (!cursor_next(c, &h, sizeof(h)))
		return OUTCOME_LINK_TRUNCATED;
	type = h.type;
	outcome = link_vlans(c, p, &type);
	if (!outcome && type == ETHERTYPE_PPPOE_SESSION)
		outcome = link_pppoe(c, &type);
	if (outcome)
		return outcome;
	if (config.tunnels && is_mpls(type)) {
		p->next_type = type;
		p->next_at = c->at;
		return OUTCOME_TUNNEL;
	}
	p->ipv6 = type == ETHERTYPE_IPV6;
	return p->ipv6 || type == ETHERTYPE_IPV4 ? OUTCOME_CONTINUE : OUTCOME_NOT_IP;
}

// link_none is link_parse for a device whose packets start with the IP header, which names its own version.
INLINE enum outcome link_none(struct cursor *c, struct packet *p)
{
	u8 version;

	if (!cursor_read(c, c->at, &version, sizeof(version)))
		return OUTCOME_LINK_TRUNCATED;
	version >>= 4;
	p->ipv6 = version == 6;
	return version == 4 || version == 6 ? OUTCOME_CONTINUE : OUTCOME_NOT_IP;
}
