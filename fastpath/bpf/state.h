// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What the programs share with user space. The first three structs are those of the Go package media, which both sides
// change by atomic operations; a test compares their layout.
#pragma once

#include "keystream.h"
#include "reason.h"

#define MAX_STREAMS (64 * MAX_SUBSCRIBERS)
#define LEDGER_LEN 2048 // records of one subscriber; a power of two
#define MAX_SUBGROUPS 8192
#define MAX_OBJECTS 32768 // that came in datagrams lately
#define MAX_TRACKS 16384
#define MAX_TRACK_SUBSCRIPTIONS 32 // more than one packet's budget allows would never be used

// One subscriber's connection.
struct subscriber_state {
	u64 next_pn; // key generation << 62 | next packet number
	u64 in_flight; // bytes
	u64 data_sent; // connection flow control credit used
	u64 next_uni; // id of the next unidirectional stream
	u32 writers; // senders with a packet number whose record is not yet written
	u32 pad0;
	u64 pad1[3];
	u64 window; // bytes
	u64 data_limit;
	u64 max_uni; // unidirectional streams allowed
	u64 ledger_low; // records from here on must not be overwritten
	u32 threshold; // streams of higher levels are not sent
	u32 mtu; // largest QUIC packet; 0: nothing may be sent
	u64 reserve; // credit that is not in data_limit: user space's alone
	u64 pad2[2];
	u64 packets;
	u64 bytes;
	u64 pad3[6];
};
_Static_assert(sizeof(struct subscriber_state) == 192, "subscriber_state is three cache lines");

enum stream_phase {
	STREAM_OPENING, // in the hands of whoever opened it
	STREAM_OPEN, // the prefix was sent
	STREAM_CLOSED,
	STREAM_ABANDONED, // opened by the kernel, which could not send the prefix or found no stream id: user space goes on
};

// One downstream subgroup stream.
struct stream_state {
	u64 next; // upstream offset of the first byte that nobody has sent, with CLOSED_BIT
	u64 delta; // stream offset minus upstream offset
	u64 limit; // MAX_STREAM_DATA, a stream offset
	u64 id;
	enum stream_phase phase;
	u32 level; // subscriber priority << 8 | publisher priority
	u64 pad[3];
};
_Static_assert(sizeof(struct stream_state) == 64, "stream_state is a cache line");

#define NO_STREAM (~0ULL) // id of a stream that has none yet
#define CLOSED_BIT (1ULL << 63) // FIN was sent or the stream was reset: no byte may be claimed

// The ledger's entry of a sent packet.
struct record {
	u64 pn; // written last
	u64 sent; // CLOCK_MONOTONIC, nanoseconds
	u64 offset; // in the stream
	u64 info; // stream number | data length << 32 | rest of the packet << 48 | flags << 56
};
#define RECORD_NONE (~0ULL)
#define RECORD_KIND_DATAGRAM 1
#define RECORD_FIN 8

// Keys of a subscriber, by key generation.
struct send_keys {
	struct packet_keys generation[4];
};

// What became of the copies for one subscriber, by reason from COPY_SENT on.
struct copy_counts {
	u64 by_reason[REASON_COUNT - COPY_SENT];
};

// How a subscriber is reached. Replaced as a whole.
struct path {
	u8 saddr[16], daddr[16]; // IPv4 in the first four bytes
	__be16 dport;
	u8 v6;
	u8 endpoint_pad; // from daddr to here it is a struct endpoint
	__be16 sport;
	u8 dcid_len;
	u8 stream_prefix_len; // WebTransport's, see Conn.StreamPrefix
	u8 datagram_prefix_len;
	u8 pad[7];
	u8 dcid[24]; // 20 bytes and zeros
	u8 stream_prefix[16]; // right-aligned
	u8 datagram_prefix[8]; // right-aligned
	u64 stream_limit; // initial_max_stream_data_uni
	u64 datagram_limit; // max_datagram_frame_size
};

// What the programs receive on a connection. It has the same index as its subscriber_state.
struct upstream {
	struct packet_keys keys[2]; // by key phase
	u64 expected_pn; // the largest that was opened, plus one
	u64 first_stream; // streams with lower ids are not registered any more: they may have ended
	u32 keys_set; // bit per key phase
	u8 active; // it publishes a track that the fast path serves
	u8 webtransport;
	u16 pad;
};

// A connection ID of ours: 20 bytes, zero padded, and its length.
struct connection_id {
	u8 bytes[20];
	u32 len;
};

struct alias_key {
	u64 alias;
	u32 upstream, pad;
};

struct subscription {
	u64 alias; // of the track, on the subscriber's hop
	u64 start_group, start_object, end_group; // inclusive
	u32 subscriber;
	u8 forward;
	u8 priority; // subscriber priority
	u16 pad;
};

// The subscriptions of a track that the fast path serves, each of another subscriber. Replaced as a whole.
struct track {
	u32 count;
	u32 default_priority; // publisher priority of subgroups and datagrams that do not say theirs
	u32 version; // of the list, see OBJECT_VERSION_SHIFT
	u32 pad;
	u64 first_group, first_object; // claims of objects before this location are not known any more
	struct subscription subscriptions[MAX_TRACK_SUBSCRIPTIONS];
};

struct stream_key {
	u64 stream_id;
	u32 upstream, pad;
};

// An upstream subgroup stream. Its header is kept in the form that all hops but the first write: with Subgroup ID unless
// that is 0, and with priority.
struct subgroup {
	u64 group, subgroup;
	u32 track;
	u32 header_len; // of its header upstream: the log begins behind it
	u8 header_type, priority;
	u8 ended; // user space has all of it: what still comes are retransmissions
	u8 pad[5];
};

// An object that came in a datagram. Whoever puts it into the map objects sends it.
struct object_key {
	u64 group, object;
	u32 track, pad;
};

// What became of it. state says to which subscriptions of the track's list the kernel has sent it, by their positions; which
// version of the list that was; and that nobody else follows.
struct object_claim {
	u64 state;
	u64 claimed; // CLOCK_MONOTONIC, nanoseconds
};
#define OBJECT_VERSION_SHIFT 32
#define OBJECT_DONE (1ULL << 63)
_Static_assert(MAX_TRACK_SUBSCRIPTIONS <= OBJECT_VERSION_SHIFT, "a bit for each subscription");

struct downstream_key {
	u64 stream_id; // upstream
	u32 upstream, subscriber;
};

#define SHARED_ARRAY(name, count, type_) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, count); \
		__type(key, u32); \
		__type(value, type_); \
	} name SEC(".maps")

#define HASH(name, count, key_, type_) \
	struct { \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(max_entries, count); \
		__type(key, key_); \
		__type(value, type_); \
	} name SEC(".maps")

SHARED_ARRAY(subscribers, MAX_SUBSCRIBERS, struct subscriber_state);
SHARED_ARRAY(streams, MAX_STREAMS, struct stream_state);
LENT(ledgers, MAX_SUBSCRIBERS, LEDGER_LEN, struct record); // before the path is known
SHARED_ARRAY(keys, MAX_SUBSCRIBERS, struct send_keys);
SHARED_ARRAY(copies, MAX_SUBSCRIBERS, struct copy_counts);
SHARED_ARRAY(upstreams, MAX_SUBSCRIBERS, struct upstream);
HASH(paths, MAX_SUBSCRIBERS, u32, struct path);
HASH(connection_ids, 8 * MAX_SUBSCRIBERS, struct connection_id, u32);
HASH(aliases, MAX_TRACKS, struct alias_key, u32);
HASH(tracks, MAX_TRACKS, u32, struct track);
HASH(subgroups, MAX_SUBGROUPS, struct stream_key, struct subgroup);
HASH(objects, MAX_OBJECTS, struct object_key, struct object_claim);
HASH(downstreams, MAX_STREAMS, struct downstream_key, u32);

// Elements of streams that nobody uses.
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_STREAMS);
	__uint(value_size, sizeof(u32));
} free_streams SEC(".maps");
