// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The kinds of maps that the programs share with user space. The loader replaces the sizes that depend on how many
// connections can take part.
#pragma once

#include <sluice/types.h>

enum capacity {
	MAX_CONNECTIONS = 1024,
	STREAMS_PER_CONNECTION = 64,
	IDS_PER_CONNECTION = 8,
	MAX_STREAMS = STREAMS_PER_CONNECTION * MAX_CONNECTIONS,
	STREAM_SHARE = 4 * STREAMS_PER_CONNECTION, // streams that one connection may have: few have many at a time
	MAX_SUBGROUPS = 16384, // that are being sent; and as many that have ended
	MAX_OBJECTS = 65536, // that came in datagrams lately
	MAX_TRACKS = 16384,
	PART_LEN = 16, // subscriptions in an element of the map tracks
	FULL_TRACKS = 1024, // that can have as many subscriptions as possible at a time
	EXTENT_SHIFT = 6,
	EXTENT_LEN = 1 << EXTENT_SHIFT, // elements of an extent, see GROWING; more where they are small
};

// Extents are whole pages, because user space maps each behind the previous one. So there are more elements in one
// where these are no multiples of 64 bytes, but only of 32, 16 or 8. Where pages are larger than 4 KiB, the loader
// makes all extents longer.
const volatile u32 extent_shift = EXTENT_SHIFT;

#define SMALL_SHIFT(size) ((size) % 64 ? 6 - __builtin_ctz(size) : 0)

// SHARED reads or writes a field that user space changes at any time: the compiler must neither read a compared value
// twice, nor keep a value.
#define SHARED(field) (*(volatile __typeof__(field) *)&(field))

// SHARED_ARRAY is memory: user space maps it, and both sides read and write its elements.
#define SHARED_ARRAY(name, count, type_) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, count); \
		__type(key, u32); \
		__type(value, type_); \
	} name SEC(".maps")

// LENT is such memory, which a connection has only while it needs it: an array of arrays, into which user space puts an
// array for the connection, and takes it out when no program can be using it.
#define LENT(name, count, len, type_) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); \
		__uint(max_entries, count); \
		__type(key, u32); \
		__array(values, struct { \
			__uint(type, BPF_MAP_TYPE_ARRAY); \
			__uint(map_flags, BPF_F_MMAPABLE); \
			__uint(max_entries, len); \
			__uint(key_size, sizeof(u32)); \
			__uint(value_size, sizeof(type_)); \
		}); \
	} name SEC(".maps")

// GROWING is such memory for as many elements as there have to be. It consists of extents of equal length, which user
// space makes when they are first needed. name_at returns an element; 0: there is no such extent yet.
//
// name_at is a function because its keys would be on the stack of all that its callers call, and there is one for each
// map because the verifier makes a lookup cheap only if it is always in the same map.
#define GROWING(name, count, type_) \
	LENT(name, (count) / EXTENT_LEN, EXTENT_LEN << SMALL_SHIFT(sizeof(type_)), type_); \
	static __noinline __attribute__((unused)) type_ *name##_at(u32 index) \
	{ \
		u32 shift = extent_shift + SMALL_SHIFT(sizeof(type_)); \
		u32 extent = index >> shift, at = index & ((1 << shift) - 1); \
		void *elements = bpf_map_lookup_elem(&name, &extent); \
\
		return elements ? bpf_map_lookup_elem(elements, &at) : 0; \
	}

// HASH allocates elements when they are inserted: all of them at once would be tens of megabytes.
#define HASH(name, count, key_, type_) \
	struct { \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(max_entries, count); \
		__type(key, key_); \
		__type(value, type_); \
	} name SEC(".maps")

GO_TYPE(enum, capacity);
