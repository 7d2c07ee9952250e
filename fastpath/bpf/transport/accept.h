// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Whether the stack would hand a datagram to the relay's socket.
//
// TCX comes before IP, so the programs see packets that the stack is going to discard. If they forwarded these, a
// publisher could send subscribers bytes that user space never sees, and then others for the same place of a stream.
// The AEAD tag does not help: the publisher makes it. So a packet is declined unless it passes the stack's checks:
//
//	link layer     ip_rcv and ipv6_rcv discard frames for another host, and frames of a VLAN without a device here. If
//	               it has one, its programs see these without the tag. Broadcasts and multicasts bear no media
//	IP header      version, options and fragments: udp.h. Here the checksum of IPv4, and that IP and UDP name the same
//	               length: the stack would cut the packet, or discard it
//	addresses      routing discards packets to other hosts' addresses, and from impossible ones. The path's addresses
//	               come from packets that have reached the socket, and QUIC has validated them
//	UDP checksum   a wrong one. 0 means none over IPv4 (RFC 768), and is wrong over IPv6 (RFC 8200 §8.1)
//
// What comes after that, a firewall or a full socket buffer, cannot be seen from here.
#pragma once

#include "../shared/reason.h"
#include "../shared/scratch.h"
#include "../shared/udp_path.h"
#include "offload.h"
#include "udp.h"

#define PACKET_HOST 0 // linux/if_packet.h: addressed to this host
#define VLAN_ID_MASK 0xfff // of the TCI; a tag without an ID has a priority only

// accept_headers looks at the link layer and the IP header. It returns PACKET_OPENED if the stack accepts them.
INLINE enum reason accept_headers(const struct __sk_buff *skb, const struct datagram *d)
{
	if (skb->pkt_type != PACKET_HOST || skb->vlan_tci & VLAN_ID_MASK || d->ip_at != ETH_HLEN)
		return PACKET_OTHER_HOST;
	if (d->ip_sum != 0xffff || d->ip_payload_len != d->payload_len + sizeof(struct udphdr))
		return PACKET_BAD_HEADER;
	return PACKET_OPENED;
}

// same_address compares addresses of 16 bytes.
INLINE bool same_address(const u8 *a, const u8 *b)
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]));
}

// accept_path compares the datagram's addresses and ports with the peer's path.
INLINE bool accept_path(const struct datagram *d, const struct udp_path *p)
{
	return d->v6 == p->v6 && d->sport == p->dport && d->dport == p->sport && same_address(d->saddr, p->daddr) &&
	       same_address(d->daddr, p->saddr);
}

// sum_holds computes the UDP checksum. The packet has been opened in IN by now, where its ciphertext is no more, so
// it is read once more, to OUT.
GLOBAL int sum_holds(struct __sk_buff *skb, const struct datagram *d)
{
	struct scratch *c = scratch_get();

	if (!c || !d)
		return 0;
	u32 len = d->payload_len + sizeof(struct udphdr);
	barrier_var(len); // see open_packet
	if (len <= sizeof(struct udphdr) || len > MAX_PAYLOAD + sizeof(struct udphdr))
		return 0;
	if (bpf_skb_load_bytes(skb, d->payload_at - sizeof(struct udphdr), c->buf + OUT, len))
		return 0;
	*(u32 *)(c->buf + OUT + len) = 0; // up to which the sum is rounded
	u64 pseudo = sum_of(d->saddr, 32) + bpf_htons(IPPROTO_UDP) + bpf_htons(len);
	return fold(pseudo + sum_of_payload(c->buf + OUT, (len + 3) & ~3u)) == 0xffff;
}

// accept_checksum returns whether the stack accepts the UDP checksum. It verifies what the device has not verified
// already, and trusts a packet of this machine, which has no checksum yet. *start becomes where the device begins to
// sum such a packet; 0: it does not.
INLINE bool accept_checksum(struct __sk_buff *skb, const struct datagram *d, u32 *start)
{
	enum checksum_state state = checksum_state(skb, start);

	if (!d->checksum && d->v6)
		return false;
	if (state == CHECKSUM_PARTIAL)
		return *start == d->payload_at - sizeof(struct udphdr);
	return !d->checksum || state == CHECKSUM_UNNECESSARY || sum_holds(skb, d);
}
