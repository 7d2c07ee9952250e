// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The structs and maps that the programs share with user space.
//
// The Go package claim has the first three structs too, with the same field names; both sides change them by atomic
// operations, and a test compares the layouts. The enums that go with them reach that package as the generated file
// claim/constants.go.
#pragma once

#include "keys.h"
#include "maps.h"
#include "reason.h"
#include "share.h"
#include "udp_path.h"
#include "versions.h"

// The number of subscriptions that the kernel can serve.
enum subscription_limits {
	MAX_SUBSCRIPTIONS = 512, // of a track
	// Of those, the first ones get objects in datagrams: a claim has a bit for each of them. Objects that many want
	// come in streams, which need no such list.
	MAX_OBJECT_COPIES = 32,
};

// The places of the parts of a record's info. The stream number begins at bit 0.
enum ledger_layout {
	LEDGER_LEN = 1024, // records of one connection; a power of two
	LENGTH_SHIFT = 32, // length of the data
	OVERHEAD_SHIFT = 48, // length of the rest of the packet
	FLAGS_SHIFT = 56, // kind and flags
};

#define ECN_MASK 3 // the ECN bits of an IP header (RFC 3168 §5)

// One connection, as all senders share it.
struct conn_state {
	u64 next_pn; // key generation << GENERATION_SHIFT | NUMBERS_CLOSED, once it has ended | next packet number
	u64 in_flight; // bytes
	u64 data_sent; // connection flow control credit used
	u64 next_uni; // id of the next unidirectional stream
	u32 writers; // senders with a packet number whose record is not yet written
	u32 slots; // of the array streams that its streams have
	u64 bucket_at; // when the bucket is full, see bucket.h
	u64 paced_at; // when the pacer's bucket is full
	u64 pad1;
	u64 window; // bytes
	u64 data_limit;
	u64 max_uni; // unidirectional streams allowed
	u64 ledger_low; // records from here on must not be overwritten
	u32 threshold; // streams of higher levels are not sent
	u32 mtu; // largest QUIC packet; 0: nothing may be sent
	u64 reserve; // credit that is not in data_limit: only quic-go uses it
	u64 bounds; // of the bucket's classes: four levels of 16 bits
	u32 bucket_cost; // nanoseconds in which the bucket fills by 1024 bytes; 0: there is no bucket
	u32 bucket_burst; // microseconds in which it gets full
	u64 packets;
	u64 bytes;
	u64 limited_to; // packets with lower numbers were sent while window or pacing held data back
	u32 ecn; // of the IP headers of packets that are sent (RFC 3168 §5); only user space sets it
	u32 pace_cost; // nanoseconds in which the pacer's bucket fills by 1024 bytes; 0: packets are not paced
	u32 pace_burst; // microseconds in which it gets full
	u32 pace_waits; // the media sender has data that pacing holds back, see bucket.h
	u64 pad4[3];
};
_Static_assert(sizeof(struct conn_state) == 192, "conn_state is three cache lines");

// Phases of a stream.
enum stream_phase {
	STREAM_OPENING, // only the sender that opens it uses it
	STREAM_OPEN, // the prefix was sent: both senders may claim
	STREAM_CLOSED, // nothing more is claimed
	STREAM_ABANDONED, // the forwarder opened it and could not send the prefix: the media sender goes on
};

// One downstream subgroup stream.
struct stream_state {
	u64 next; // the cursor: publisher's offset of the first byte that no sender has claimed; with CLOSED_BIT
	u64 delta; // stream offset minus publisher's offset
	u64 limit; // MAX_STREAM_DATA, a stream offset
	u64 id;
	enum stream_phase phase;
	u32 level; // Subscriber Priority << 8 | Publisher Priority
	u64 alias; // Track Alias in the prefix of a stream that the kernel has opened
	u64 pad[2];
};
_Static_assert(sizeof(struct stream_state) == 64, "stream_state is a cache line");

// Values of a stream's fields that are no offset and no id.
enum stream_mark {
	CLOSED_BIT = 1ULL << 63, // in next: FIN was sent or the stream was reset, and no byte may be claimed
	NO_STREAM = ~0ULL, // id of a stream that has none yet
};

// The ledger's entry of a sent packet.
struct record {
	u64 pn; // written last
	u64 sent; // CLOCK_MONOTONIC, nanoseconds
	u64 offset; // in the stream
	u64 info; // stream number | data length | rest of the packet | kind and flags, see ledger_layout
};

// A value that no packet number has (RFC 9000 §12.3).
enum record_mark {
	NO_PACKET = ~0ULL, // pn of a record while the rest of it changes
};

// Kinds of packets, by their only frame.
enum record_kind {
	KIND_STREAM,
	KIND_DATAGRAM,
	KIND_RESET,
	KIND_PING,
	KIND_BLOCKED, // DATA_BLOCKED, STREAM_DATA_BLOCKED or STREAMS_BLOCKED
	KIND_SKIPPED, // was not sent: only an optimistic ACK covers it (RFC 9000 §21.4)
	KIND_ACK_FREQUENCY,
	KIND_MASK = 7,
};

// Flags of a packet, beside the kind.
enum record_flag {
	FLAG_FIN = 1 << 3,
	FLAG_OLD_PATH = 1 << 4, // was sent on an earlier path, and is no longer counted as in flight
	FLAG_ACKED = 1 << 5,
	FLAG_LOST = 1 << 6,
	FLAG_MARKED = 1 << 7, // was sent with ECT(0) or ECT(1)
};

// Keys to send with, by key generation.
struct send_keys {
	struct packet_keys generation[4];
};

// What became of the copies for one connection, by reason from COPY_SENT on.
struct copy_counts {
	u64 by_reason[REASON_COUNT - COPY_SENT];
};

// Where packets for a connection go, and where its packets come from.
struct path {
	struct udp_path udp;
	u8 dcid_len;
	u8 stream_prefix_len; // what WebTransport puts in front of streams
	u8 datagram_prefix_len; // and of datagrams
	u8 pad[7];
	u8 dcid[24]; // 20 bytes and zeros
	u8 stream_prefix[16]; // right-aligned
	u8 datagram_prefix[8]; // right-aligned
	u64 stream_limit; // initial_max_stream_data_uni
	u64 datagram_limit; // max_datagram_frame_size
};

enum number_window {
	NUMBER_WORDS = 32, // of 32 packet numbers each: reordering across more of them is rare
};

// A connection as a publisher: the state for opening its packets. It has the same index as the connection's conn_state.
struct publisher {
	struct packet_keys keys[2]; // by key phase
	u64 expected_pn; // the largest that was opened, plus one
	u64 first_stream; // no stream with a lower id is registered: it may have ended
	u64 first_number; // packets with lower numbers may have come before the kernel began to look
	u64 numbers[NUMBER_WORDS]; // that have come, see transport/numbers.h
	u32 keys_set; // bit of the key phase whose keys open packets
	u8 active; // it publishes a track that the fast path serves
	u8 webtransport;
	u16 pad;
};
_Static_assert(sizeof(struct publisher) == 448, "publisher is seven cache lines");

// A connection ID of ours: 20 bytes, zero padded, and its length.
struct connection_id {
	u8 bytes[20];
	u32 len;
};

struct alias_key {
	u64 alias;
	u32 publisher, pad;
};

struct subscription {
	u64 alias; // of the track, on the subscriber's hop
	u64 start_group, start_object, end_group; // inclusive
	u32 subscriber; // index of its connection
	u8 forward;
	u8 priority; // Subscriber Priority
	u16 pad;
};

// A part of a track's list: subscriptions that the fast path serves, each of another connection. All parts but the last
// are full, and each repeats the rest, so that a short list is one element, and a program looks for no more than it
// needs.
struct track {
	u32 count; // of subscriptions in all parts
	u32 default_priority; // Publisher Priority of subgroups and datagrams without one of their own
	u32 version; // of the list, see VERSION_SHIFT
	u32 publisher; // index of the connection that the track comes from
	u64 alias; // of the track, on that connection
	u64 first_group, first_object; // claims of objects before this location may be forgotten
	u64 fresh_group, fresh_subgroup; // streams of subgroups before this one may have come, and be forgotten
	struct subscription subscriptions[PART_LEN];
};

// A stream of a publisher.
struct stream_key {
	u64 stream_id;
	u32 publisher, pad;
};

// The subgroup that it carries. Its header is kept in the form that the relay writes: with Subgroup ID unless that is
// 0, and with priority.
struct subgroup {
	u64 group, subgroup;
	u32 track;
	u32 header_len; // of the header as the publisher wrote it: the log begins behind it
	u8 header_type, priority;
	u8 pad[6];
};

// A subgroup of a publisher's.
struct subgroup_key {
	u64 group, subgroup;
	u32 track, publisher;
};

// An object that came in a datagram. The sender that puts it into the map objects sends it.
struct object_key {
	u64 group, object;
	u32 track, pad;
};

// What became of the object. state holds the subscriptions to which the kernel has sent the object, by their positions
// in the track's list; the version of that list; and whether the kernel sends it to no more of them.
struct object_claim {
	u64 state;
	u64 claimed; // CLOCK_MONOTONIC, nanoseconds
	u32 publisher, pad; // that the object came from
};

enum object_layout {
	VERSION_SHIFT = 32, // of the version in state, above a bit for each subscription
	OBJECT_DONE = 1ULL << 63,
};
_Static_assert((int)MAX_OBJECT_COPIES <= (int)VERSION_SHIFT, "a bit for each subscription");

// The stream that carries a publisher's stream to a subscriber.
struct downstream_key {
	u64 stream_id; // the publisher's
	u32 publisher, subscriber;
};

GROWING(connections, MAX_CONNECTIONS, struct conn_state)
GROWING(streams, MAX_STREAMS, struct stream_state)
LENT(ledgers, MAX_CONNECTIONS, LEDGER_LEN, struct record); // since before the path is known
GROWING(keys, MAX_CONNECTIONS, struct send_keys)
GROWING(copies, MAX_CONNECTIONS, struct copy_counts)
GROWING(publishers, MAX_CONNECTIONS, struct publisher)
VERSIONED(path, MAX_CONNECTIONS, struct path);
HASH(connection_ids, IDS_PER_CONNECTION * MAX_CONNECTIONS, struct connection_id, u32);
HASH(aliases, MAX_TRACKS, struct alias_key, u32);
VERSIONED(track, MAX_TRACKS, struct track);
HASH(subgroups, MAX_SUBGROUPS, struct stream_key, struct subgroup);
// Streams that user space has read to their end: packets that still come are retransmissions. A subgroup that has ended
// is not marked by itself, because programs read it: it is deleted a grace period later.
HASH(ended, MAX_SUBGROUPS, struct stream_key, u32);
// The stream that brought a subgroup first, until it is forgotten that the stream has ended.
HASH(first_streams, 2 * MAX_SUBGROUPS, struct subgroup_key, u64);
HASH(objects, MAX_OBJECTS, struct object_key, struct object_claim);
HASH(downstreams, MAX_STREAMS, struct downstream_key, u32);

// Slots that no stream uses.
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_STREAMS);
	__uint(value_size, sizeof(u32));
} free_streams SEC(".maps");

// find_path returns where a connection's packets go, or 0. Like find_track, it is a function of its own because its key
// would be on the stack of all that its callers call.
static __noinline __attribute__((unused)) struct path *find_path(u32 connection)
{
	return find_part(&paths, connection, current_version(path_versions_at(connection)), 0);
}

// find_track returns the first part of a track that the fast path serves, or 0.
static __noinline __attribute__((unused)) struct track *find_track(u32 index)
{
	return find_part(&tracks, index, current_version(track_versions_at(index)), 0);
}

// find_subscriptions returns a part of a version of a track's list, or 0.
static __noinline __attribute__((unused)) struct track *find_subscriptions(u32 index, u64 version, u32 part)
{
	return find_part(&tracks, index, version, part);
}

// has_alias reports whether a track has an alias. The map aliases may have answered with an element that was deleted
// meanwhile, and belongs to another alias already.
INLINE bool has_alias(const struct track *t, const struct alias_key *a)
{
	return t->publisher == a->publisher && t->alias == a->alias;
}

GO_TYPE(enum, subscription_limits);
GO_TYPE(enum, packet_word);
GO_TYPE(enum, ledger_layout);
GO_TYPE(enum, stream_mark);
GO_TYPE(struct, record);
GO_TYPE(enum, record_mark);
GO_TYPE(enum, record_kind);
GO_TYPE(enum, record_flag);
GO_TYPE(enum, object_layout);
