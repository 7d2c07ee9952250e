// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The link-layer addresses of subscribers, learned from the packets that the stack sends to them. So copies go where
// the stack's own packets go, through any routing, and nobody can redirect them by sending packets.
//
// They are kept by all addresses and ports of the datagrams. Another program of this machine may send from the same
// port, but from another address, and the stack may route its packets otherwise. Packets of other machines, which this
// one forwards, may come from that port, too. They are not looked at, so nobody can fill the map with them either.
//
// bpf_fib_lookup would find a route and a neighbour, too. But it does not see what policy routing by socket, a tunnel
// or a netfilter rule does to the stack's packets, and fails while a neighbour is not resolved.
#pragma once

#include "../shared/udp_path.h"
#include "../transport/udp.h"

struct neighbor {
	u32 ifindex;
	u8 dmac[6], smac[6];
	__be16 vlan_proto; // 0: untagged
	u16 vlan_tci;
};
_Static_assert(sizeof(struct neighbor) == 20, "neighbor is compared as words");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct udp_path);
	__type(value, struct neighbor);
} neighbors SEC(".maps");

INLINE int same_neighbor(const struct neighbor *a, const struct neighbor *b)
{
	const u32 *x = (const u32 *)a, *y = (const u32 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]));
}

INLINE bool is_tag(__be16 proto) { return proto == ETH_P_8021Q_BE || proto == ETH_P_8021AD_BE; }

// read_neighbor takes the Ethernet header of a packet that leaves, and the VLAN tag. A tag is beside the packet
// (vlan_present) if a device down the stack is still to insert it, else it is in the header. Copies have one
// tag at most: where there are two, a device above this one has seen the packet before, and so the neighbour is known.
INLINE int read_neighbor(struct __sk_buff *skb, struct neighbor *n)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct vlan_tag *tag = (void *)(eth + 1);

	if ((void *)(tag + 1) > end)
		return -1;
	n->ifindex = skb->ifindex;
	__builtin_memcpy(n->dmac, eth->h_dest, 6);
	__builtin_memcpy(n->smac, eth->h_source, 6);
	n->vlan_proto = n->vlan_tci = 0;
	bool tagged = is_tag(eth->h_proto);
	if (tagged && (skb->vlan_present || is_tag(tag->proto)))
		return -1;
	if (skb->vlan_present) {
		n->vlan_proto = skb->vlan_proto;
		n->vlan_tci = skb->vlan_tci;
	} else if (tagged) {
		n->vlan_proto = eth->h_proto;
		n->vlan_tci = bpf_ntohs(tag->tci);
	}
	return 0;
}

// learn_neighbor remembers where a datagram of the relay goes. It runs for every packet that leaves, and a write to the
// LRU map takes a lock, so it writes changes only. A packet that this machine forwards has come in by a device.
GLOBAL int learn_neighbor(struct __sk_buff *skb)
{
	struct datagram d = {};
	struct udp_path key = {};
	struct neighbor n = {};

	if (skb->ingress_ifindex || parse_datagram(skb, &d))
		return -1;
	if ((d.sport != relay_port && d.sport != rtp_port) || read_neighbor(skb, &n))
		return -1;
	__builtin_memcpy(key.saddr, d.saddr, sizeof(key.saddr));
	__builtin_memcpy(key.daddr, d.daddr, sizeof(key.daddr));
	key.sport = d.sport;
	key.dport = d.dport;
	key.v6 = d.v6;
	struct neighbor *known = bpf_map_lookup_elem(&neighbors, &key);
	if (known && same_neighbor(known, &n))
		return 0;
	return bpf_map_update_elem(&neighbors, &key, &n, BPF_ANY);
}
