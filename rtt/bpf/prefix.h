// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Aggregation: traffic and RTTs of each network prefix, or with config.groups of each group of prefixes, for one period
// after the other. The settings say which other keys tell aggregates apart: struct prefix_key.
//
// Each entry has the values of two periods. User space starts a period by incrementing period, and then reads the
// values of the period before, which no longer change. A program that finds values of an older period clears them
// first.
#pragma once

#include "bins.h"
#include "groups.h"
#include "ip.h"
#include "load.h"

// Packets of one direction, in one period. Each CPU has an entry for each prefix, so its size counts: counters of some
// of the packets have 32 bits, and stay at the largest number.
struct direction {
	struct traffic traffic[TRAFFIC_CLASSES];
	u32 retransmissions; // segments of TCP that were sent again
	u32 ecn_capable; // packets that say so (RFC 3168)
	u32 ecn_marked; // capable packets that have met congestion
	u32 period;
};

struct traffic_entry {
	struct direction sent[2]; // by hosts of the prefix; of the even and the odd periods
	struct direction received[2];
	struct load_second load; // this CPU's bytes of the current second
};

// Losses of packets in one direction, by the loss bits of QUIC.
struct loss {
	u64 all; // packets that were sent, in whole blocks
	u64 passed; // packets of these that were seen; the others were lost before
	u64 reported; // losses that their senders have noticed, before or after
};

struct rtt_period {
	u32 period;
	u32 count;
	u64 sum; // ns, as all times
	u64 min;
	u64 max;
	struct loss sent; // by hosts of the prefix
	struct loss received;
	u32 bins[BINS]; // the last one also counts all longer RTTs
};

struct rtt_entry {
	struct bpf_spin_lock lock;
	u32 pad;
	struct rtt_period periods[2];
};

// Every packet is counted, and each CPU counts by itself. An entry takes memory only once the prefix is seen.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix_key);
	__type(value, struct traffic_entry);
} prefix_traffic SEC(".maps");

// RTTs are few in comparison: all CPUs share one histogram, which is the large part.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix_key);
	__type(value, struct rtt_entry);
} prefix_rtts SEC(".maps");

volatile u32 period;

// New entries are copied from here.
const struct traffic_entry no_traffic;
const struct rtt_entry no_rtts;

// prefix_of returns the number of an address's group, or its prefix, with the given flag if that is one of IPv6.
INLINE u64 prefix_of(const union address *a, u8 *flags, enum prefix_flag ipv6)
{
	if (config.groups)
		return group_of(a);
	if (a->halves[0] == 0 && a->words[2] == bpf_htonl(0xffff))
		return a->words[3] & config.ipv4_mask;
	*flags |= ipv6;
	return a->halves[0] & config.ipv6_mask;
}

// prefix_choose sets the packet's key to the key of the aggregate it counts for at one of its ends. The key is in the
// packet, and this is not inlined, because the stack has no room for both in one function.
GLOBAL int prefix_choose(struct packet *p, u8 side)
{
	struct prefix_key *key;

	if (!p)
		return 0;
	key = &p->prefix;
	__builtin_memset(key, 0, sizeof(*key));
	key->prefix = prefix_of(&p->key.address[side & 1], &key->flags, PREFIX_IPV6);
	if (config.by_pair)
		key->peer = prefix_of(&p->key.address[other(side)], &key->flags, PREFIX_PEER_IPV6);
	if (config.by_interface)
		key->interface = p->interface;
	if (config.by_vlan) {
		key->vlan = p->vlan;
		key->inner_vlan = p->inner_vlan;
	}
	if (config.by_transport)
		key->transport = ip_transport(p);
	return 0;
}

// prefix_rest turns a key into the key of all addresses of a family, which user space adds at the start. It is used
// when the map is full.
INLINE void prefix_rest(struct prefix_key *key)
{
	u8 flags = key->flags & ~PREFIX_PEER_IPV6;

	tally(TALLY_PREFIXES_FULL);
	__builtin_memset(key, 0, sizeof(*key));
	key->flags = flags;
}

INLINE struct traffic_entry *prefix_find_traffic(struct prefix_key *key)
{
	struct traffic_entry *t = bpf_map_lookup_elem(&prefix_traffic, key);

	if (t)
		return t;
	bpf_map_update_elem(&prefix_traffic, key, &no_traffic, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&prefix_traffic, key);
	if (t)
		return t;
	prefix_rest(key);
	return bpf_map_lookup_elem(&prefix_traffic, key);
}

// prefix_has_traffic takes the key of RTTs.
INLINE bool prefix_has_traffic(struct prefix_key *key)
{
	u8 flags = key->flags;
	bool found;

	key->flags = flags & ~PREFIX_RTT_FLAGS;
	found = bpf_map_lookup_elem(&prefix_traffic, key);
	key->flags = flags;
	return found;
}

// prefix_find_rtts adds only prefixes whose traffic has an entry, so that traffic and RTTs of a prefix come from the
// same packets. Traffic is counted before RTTs: a reply answers a packet that was sent to its prefix.
INLINE struct rtt_entry *prefix_find_rtts(struct prefix_key *key)
{
	struct rtt_entry *r = bpf_map_lookup_elem(&prefix_rtts, key);

	if (r)
		return r;
	if (prefix_has_traffic(key))
		bpf_map_update_elem(&prefix_rtts, key, &no_rtts, BPF_NOEXIST);
	r = bpf_map_lookup_elem(&prefix_rtts, key);
	if (r)
		return r;
	prefix_rest(key);
	if (config.load && !(key->flags & PREFIX_ANY_LOAD))
		key->flags = (key->flags & ~PREFIX_LOADED) | PREFIX_UNPLACED;
	return bpf_map_lookup_elem(&prefix_rtts, key);
}

// direction_now returns the values of the current one of two periods.
INLINE struct direction *direction_now(struct direction both[2])
{
	u32 now = period;
	struct direction *d = &both[now & 1];

	if (d->period != now) {
		__builtin_memset(d, 0, sizeof(*d));
		d->period = now;
	}
	return d;
}

// add_up adds to a counter that stays at the largest number.
INLINE void add_up(u32 *counter, u32 more)
{
	u32 sum = *counter + more;

	*counter = sum < more ? ~0u : sum;
}

INLINE void traffic_add(struct traffic *t, const struct packet *p)
{
	t->packets += p->segments;
	t->bytes += p->frame;
}

INLINE void direction_add(struct direction *d, const struct packet *p, u32 class)
{
	traffic_add(&d->traffic[class], p);
	add_up(&d->retransmissions, p->retransmitted);
	if (p->ecn)
		add_up(&d->ecn_capable, p->segments);
	if (p->ecn == 3)
		add_up(&d->ecn_marked, p->segments);
}

// prefix_count_at counts a packet for the end that was chosen.
INLINE void prefix_count_at(struct packet *p, bool sends)
{
	struct traffic_entry *t = prefix_find_traffic(&p->prefix);
	u32 class = p->class;

	if (!t || class >= TRAFFIC_CLASSES)
		return;
	direction_add(direction_now(sends ? t->sent : t->received), p, class);
	if (config.load)
		load_count(&t->load, &p->prefix, sends, p->frame);
}

// prefix_count counts a packet for the prefixes of its sender and of its receiver.
GLOBAL int prefix_count(struct packet *p)
{
	if (!p)
		return 0;
	prefix_choose(p, p->side);
	prefix_count_at(p, true);
	prefix_choose(p, other(p->side));
	prefix_count_at(p, false);
	return 0;
}

// rtts_now returns the values of the current period.
INLINE struct rtt_period *rtts_now(struct rtt_entry *r, u32 now)
{
	struct rtt_period *v = &r->periods[now & 1];

	if (v->period == now)
		return v;
	__builtin_memset(v, 0, offsetof(struct rtt_period, bins));
	v->period = now;
	for (u32 i = 0; i < BINS; i++) // too long for the compiler's memset
		*(volatile u32 *)&v->bins[i] = 0;
	return v;
}

INLINE void prefix_rtt_put(struct rtt_period *v, u64 rtt, u32 bin)
{
	if (!v->count || rtt < v->min)
		v->min = rtt;
	if (rtt > v->max)
		v->max = rtt;
	v->sum += rtt;
	v->count++;
	v->bins[bin]++;
}

// prefix_rtt_at adds an RTT to the prefix that was chosen: to its own hosts (kind 0), to those that they talk to
// (PREFIX_TO_PEERS), of a query (PREFIX_QUERIES), or of the whole path (PREFIX_ONE_DIRECTION).
GLOBAL int prefix_rtt_at(struct packet *p, u8 kind, u64 rtt)
{
	struct prefix_key *key;
	struct rtt_entry *r;
	u32 now = period, bin;

	if (!p)
		return 0;
	key = &p->prefix;
	if (config.load && !(kind & PREFIX_ANY_LOAD) && load_is_high(key))
		key->flags |= PREFIX_LOADED;
	key->flags |= kind & (PREFIX_TO_PEERS | PREFIX_ANY_LOAD);
	r = prefix_find_rtts(key);
	if (!r)
		return 0;
	bin = bin_of(rtt);
	bpf_spin_lock(&r->lock);
	prefix_rtt_put(rtts_now(r, now), rtt, bin);
	bpf_spin_unlock(&r->lock);
	return 0;
}

// prefix_rtt adds an RTT of one side's packets to the prefix of the host that replied, or of the host that it replied
// to. With both parts of the path, it is one RTT to a host of the first prefix, and one to a peer of the second.
INLINE void prefix_rtt(struct packet *p, u8 side, u64 rtt)
{
	prefix_choose(p, config.reverse ? side : other(side));
	prefix_rtt_at(p, 0, rtt);
	if (!config.parts)
		return;
	prefix_choose(p, side);
	prefix_rtt_at(p, PREFIX_TO_PEERS, rtt);
}

// prefix_query adds the latency of one side's query to the prefix of the server, or of the client.
INLINE void prefix_query(struct packet *p, u8 side, u64 latency)
{
	prefix_choose(p, config.reverse ? side : other(side));
	prefix_rtt_at(p, PREFIX_QUERIES, latency);
}

// prefix_one_direction_at adds an RTT of the whole path to the prefix of one end of the packet. The packet before may
// be longer ago than traffic is kept: the prefix may have to be added.
GLOBAL int prefix_one_direction_at(struct packet *p, u8 side, u64 rtt)
{
	if (!p)
		return 0;
	prefix_choose(p, side);
	prefix_find_traffic(&p->prefix);
	prefix_rtt_at(p, PREFIX_ONE_DIRECTION, rtt);
	return 0;
}

// prefix_one_direction adds an RTT of the whole path, which the packet ends, to the prefix of its sender, or of its
// receiver. With both parts of the path, it is one of both.
INLINE void prefix_one_direction(struct packet *p, u64 rtt)
{
	prefix_one_direction_at(p, config.reverse ? other(p->side) : p->side, rtt);
	if (config.parts)
		prefix_one_direction_at(p, other(p->side), rtt);
}

// prefix_loss_at adds losses to the prefix of one end of the packet. They are beside its RTTs: both are rare, and need
// no value for each CPU.
GLOBAL int prefix_loss_at(struct packet *p, u8 side, u32 all, u32 passed, u32 reported)
{
	struct rtt_period *v;
	struct rtt_entry *r;
	struct loss *l;
	u32 now = period;

	if (!p)
		return 0;
	prefix_choose(p, side);
	r = prefix_find_rtts(&p->prefix);
	if (!r)
		return 0;
	bpf_spin_lock(&r->lock);
	v = rtts_now(r, now);
	l = side == p->side ? &v->sent : &v->received;
	l->all += all;
	l->passed += passed;
	l->reported += reported;
	bpf_spin_unlock(&r->lock);
	return 0;
}

// prefix_loss adds losses of packets as this one for the prefixes of its sender and of its receiver.
INLINE void prefix_loss(struct packet *p, u32 all, u32 passed, u32 reported)
{
	prefix_loss_at(p, p->side, all, passed, reported);
	prefix_loss_at(p, other(p->side), all, passed, reported);
}
