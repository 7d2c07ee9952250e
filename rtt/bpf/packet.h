// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The results of the link, IP and transport parsers for a packet, and the key of its flow.
#pragma once

#include "counters.h"
#include "cursor.h"
#include "prefix_key.h"

// An IPv6 address, or an IPv4 address mapped into one (RFC 4291 §2.5.5.2).
union address {
	u8 bytes[16];
	u32 words[4];
	u64 halves[2];
};

// A flow's two ends in ascending order, so that both directions have one key.
struct flow_key {
	union address address[2];
	u16 port[2]; // in network order
	u32 interface; // 0 if flows are merged
	u16 vlan; // outermost, 0 if none
	u16 inner_vlan;
	u8 vni[3]; // of the tunnel, in network order, 0 if none
	u8 protocol; // of IP
};
_Static_assert(sizeof(struct flow_key) == 48, "flow_key has no hidden padding");

// other returns the other side of a flow. The mask tells the verifier its range.
INLINE u8 other(u8 side)
{
	return ~side & 1;
}

enum traffic_class {
	TRAFFIC_TCP_TIMESTAMPS,
	TRAFFIC_TCP_PLAIN,
	TRAFFIC_OTHER,
	TRAFFIC_CLASSES,
};

struct packet {
	struct flow_key key;
	u32 interface;
	u32 segments; // number of segments that segmentation offload joined
	u32 segment_size; // payload of each, 0 if not offloaded
	u64 time; // ns, once packet_time was called
	u32 at; // of the transport header
	u32 length; // from the transport header to the end of the IP packet
	u32 payload; // bytes after the transport header
	u32 retransmitted; // segments of TCP that were sent before
	u32 frame; // bytes from the link header on
	u32 next_at; // of the next header of a tunnel
	u32 next_type; // its EtherType, or enum tunnel_type; 0: there is none
	u32 vni; // VNI of VXLAN and GENEVE
	u16 vlan; // outermost, 0 if none
	u16 inner_vlan; // within it, 0 if none
	u8 ecn;
	u8 side; // index of the sender in key
	u8 class; // enum traffic_class
	bool ipv6;
	bool egress;
	struct prefix_key prefix; // the key that is looked up
};

// The packet that is being measured. On the stack it would leave too little room for called functions. Packets on one
// CPU come one after the other, so one place is enough.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct packet);
} packets SEC(".maps");

INLINE struct packet *packet_new(void)
{
	u32 zero = 0;
	struct packet *p = bpf_map_lookup_elem(&packets, &zero);

	if (p)
		__builtin_memset(p, 0, sizeof(*p));
	return p;
}

// packet_time returns when the packet was seen. The clock is read only for packets that need it.
INLINE u64 packet_time(struct packet *p)
{
	if (!p->time)
		p->time = clock_now();
	return p->time;
}

// packet_sort turns key from source, destination to ascending order, and notes which of them is the sender.
INLINE void packet_sort(struct packet *p)
{
	struct flow_key *k = &p->key;
	union address a = k->address[0], b = k->address[1];
	u16 port = k->port[0];

	p->side = a.halves[0] != b.halves[0] ? a.halves[0] > b.halves[0] :
		  a.halves[1] != b.halves[1] ? a.halves[1] > b.halves[1] :
					       k->port[0] > k->port[1];
	if (!p->side)
		return;
	k->address[0] = b;
	k->address[1] = a;
	k->port[0] = k->port[1];
	k->port[1] = port;
}

INLINE void vni_put(u8 to[3], u32 vni)
{
	to[0] = vni >> 16;
	to[1] = vni >> 8;
	to[2] = vni;
}

INLINE u32 vni_get(const u8 from[3])
{
	return from[0] << 16 | from[1] << 8 | from[2];
}

// packet_key completes the key once the ports are known.
INLINE void packet_key(struct packet *p, u16 source, u16 destination)
{
	p->key.port[0] = source;
	p->key.port[1] = destination;
	if (!config.merge) {
		p->key.interface = p->interface;
		p->key.vlan = config.vlans ? p->vlan : 0;
		p->key.inner_vlan = config.vlans ? p->inner_vlan : 0;
		vni_put(p->key.vni, p->vni);
	}
	packet_sort(p);
}
