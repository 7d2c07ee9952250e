// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The flow table: one entry for both directions. A side is one of a flow's two ends: the packets that it sent, which of
// them wait for a reply, and the RTT of the others.
#pragma once

#include "packet.h"

enum open_reason {
	OPEN_SYN,
	OPEN_SYN_ACK,
	OPEN_FIRST_PACKET,
};

enum side_state {
	SIDE_IDLE, // sent nothing that needs a reply
	SIDE_WAITING, // for the first reply
	SIDE_OPEN,
	SIDE_CLOSED,
};

struct side {
	u64 first; // when its first packet that needs a reply was seen, ns
	u64 seen; // when its last packet was seen, by the coarse clock
	u64 stamped; // when its last stamp was due: the clock of the rate limit
	u64 packets;
	u64 bytes; // of transport payload
	u64 min_rtt; // of the replies to it, ns
	u64 smoothed_rtt;
	u32 id; // newest identifier: TSval, ICMP sequence number
	volatile u32 stamped_id; // newest identifier that was stamped
	// The two directions of a flow may be on two CPUs. Each of these is only changed by the packets of one direction.
	volatile u32 stamps; // of its packets, without withdrawn ones
	u32 settled; // number of these that were answered, or will not be
	u8 state;
	u8 open_reason;
	bool identified; // id is valid
	bool to_local; // its packets are for this host
	u8 pad[4];
};
_Static_assert(sizeof(struct side) == 7 * 8 + 4 * 4 + 8, "side has no hidden padding");

// The TCP state of a side. Sequence numbers are as on the wire, in host order.
struct tcp_side {
	u64 newest_at; // when sequence_end was sent; 0 if nothing waited for a reply then
	u64 tick_at; // when the first packet of timestamp id was sent; 0 also if that was a retransmission
	u32 sequence_end; // after the last byte sent
	u32 karn_end; // sequence_end at the last retransmission: an ACK up to here is ambiguous (RFC 6298 §3)
	u32 tick_end; // after the first packet of timestamp id
	u32 acknowledged; // by the other side; changed by its packets
	u32 data_begin; // of its first data that was seen, or a window before sequence_end
	u32 retransmissions;
	bool sequenced; // sequence_end and data_begin are valid
	bool syn_seen; // it sent nothing before that SYN
	u8 kind; // of its last stamp: enum stamp_kind
	u8 pad[5];
};
_Static_assert(sizeof(struct tcp_side) == 2 * 8 + 6 * 4 + 8, "tcp_side has no hidden padding");

// A TCP connection with only one side's packets seen. Delays are from the other side by the seen one to here, less the
// delay of the handshake, ns.
struct tcp_alone {
	u64 began; // when the ACK of the handshake was seen; 0: it was not, or has no timestamps
	u64 base; // RTT of the path at the least delay, ns
	u64 turn; // when the period of least[0] began
	s64 least[2]; // delays of this period and of the last
	u64 ticks; // from the TSecr of the handshake to the newest one: as 32 bits, they would wrap after seven weeks
	u64 reported; // when the last RTT was due: the clock of the rate limit
	u32 echo; // newest TSecr
	u32 acknowledged; // newest byte
};
_Static_assert(sizeof(struct tcp_alone) == 7 * 8 + 2 * 4, "tcp_alone has no hidden padding");

struct tcp {
	struct tcp_side side[2];
	struct tcp_alone alone;
	bool confirmed; // data of a side was acknowledged by the other
	u8 pad[7];
};

// One side's half of a QUIC connection's spin signal (RFC 9000 §17.4).
struct spin {
	u64 edges[2]; // when the value changed in turn, newest first, ns
	u64 changed; // when it changed at all, or was first seen
	u32 run; // packets since then
	u32 previous_run; // packets between the last two changes
	u32 packets; // between all changes that count
	u32 wander; // by how much successive runs differed, summed up
	u32 changes; // that count
	u8 value;
	bool seen; // value is valid
	u8 strayed; // bit i: the value also changed out of turn around edge i, which is not trusted
	u8 pad;
};
_Static_assert(sizeof(struct spin) == 48, "spin has no hidden padding");

// One side's loss bits (RFC 9506). A block is the packets between two changes of the square bit.
struct loss_bits {
	u16 passed; // packets of blocks that are not counted yet
	u16 marked; // packets with the loss event bit, the current block's included
	u8 run; // packets of the current block; 255 also if there are more
	u8 next; // packets with the other value since it began
	u8 value;
	u8 blocks; // that are not counted yet
	bool began; // the current block was seen from its first packet on
	bool sure; // the bits are loss bits
	u8 pad[2];
};
_Static_assert(sizeof(struct loss_bits) == 12, "loss_bits has no hidden padding");

enum quic_phase {
	QUIC_OPENED, // an Initial was seen
	QUIC_ANSWERED,
	QUIC_REPLIED, // the opener goes on, with an ID that proves nothing
	QUIC_CONFIRMED, // the opener has used the ID that the answer has shown
};

enum spin_class {
	SPIN_UNKNOWN,
	SPIN_SPINNING,
	SPIN_CONSTANT,
	SPIN_RANDOM,
};

// The QUIC state of a flow. The opener is the side whose Initial was seen first: the client, unless that was missed.
struct quic {
	u64 initial; // when the opener's first Initial was seen, ns
	u64 heard[2]; // when a side's last long header was seen
	u64 answer; // when the answerer's first long header was seen
	u64 base; // RTT of the handshake, as far as it is known
	u32 id[2]; // hash of the connection ID that a side chose for itself, or last had
	struct spin spin[2];
	u8 opener;
	u8 phase;
	u8 class;
	u8 turn; // side whose spin edge is expected
	u8 repeated; // bit i: side i sent its long headers again
	u8 below; // consecutive samples rejected by base
	u16 edges; // in turn
	u16 strays; // out of turn
	u8 spun; // bit i: the RTTs of side i are from the spin bit, not from the handshake
	u8 id_length; // of the answerer's connection ID, once the opener has used it
	union {
		u32 id_begin; // its first bytes
		u32 id_chosen; // until then: hash of the ID that the opener chose for the answerer
	};
	struct loss_bits loss_bits[2];
};
_Static_assert(sizeof(struct quic) == 5 * 8 + 8 + 96 + 16 + 24, "quic has no hidden padding");

// A QUIC connection that may have moved to this flow's ends.
struct move {
	struct flow_key from;
	u32 begin; // of the server's connection ID
	u32 id; // hash of it
	u8 id_length;
	u8 client; // side of the client
	bool ambiguous; // the client has sent another ID: the server's packets may answer that
	u8 pad[5];
};
_Static_assert(sizeof(struct move) == 64, "move has no hidden padding");

struct flow {
	u32 id; // never 0, and not used again before its stamps have expired
	bool moving; // move is valid, and not quic
	u8 pad[3];
	struct side side[2];
	union {
		struct tcp tcp;
		struct quic quic;
		struct move move;
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

// Addresses of this host, kept up to date by user space.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, union address);
	__type(value, u8);
} local_addresses SEC(".maps");

INLINE struct flow *flow_find(const struct packet *p)
{
	return bpf_map_lookup_elem(&flows, &p->key);
}

INLINE bool is_local(const union address *a)
{
	return !config.local && bpf_map_lookup_elem(&local_addresses, a);
}

// for_this_host reports whether the packet arrives for this host. Such packets are not stamped: their RTT is this
// host's own delay.
INLINE bool for_this_host(const struct packet *p)
{
	return !p->egress && is_local(&p->key.address[other(p->side)]);
}

// flow_side returns a side of the flow. The verifier need not know the number.
INLINE struct side *flow_side(struct flow *f, u8 side)
{
	return &f->side[side & 1];
}

// flow_joined notes that a side's packets are seen as well. The RTTs of the other side until then are of the whole
// path, and those that follow are not.
INLINE void flow_joined(const struct packet *p, struct flow *f)
{
	struct side *peer = flow_side(f, other(p->side));

	peer->min_rtt = 0;
	peer->smoothed_rtt = 0;
}

// flow_count adds the packet to its sender's traffic.
INLINE void flow_count(const struct packet *p, struct flow *f)
{
	struct side *s = flow_side(f, p->side);

	if (!s->packets)
		flow_joined(p, f);
	s->packets += p->segments;
	s->bytes += p->payload;
	s->seen = clock_coarse();
}

// flow_await notes that a side has sent a packet that needs a reply.
INLINE void flow_await(struct packet *p, struct side *s, enum open_reason reason)
{
	if (s->state != SIDE_IDLE)
		return;
	s->first = packet_time(p);
	s->state = SIDE_WAITING;
	s->open_reason = reason;
}

// stampable is the opposite of for_this_host for a packet of a known flow.
INLINE bool stampable(const struct packet *p, const struct side *s)
{
	return p->egress || !s->to_local;
}
