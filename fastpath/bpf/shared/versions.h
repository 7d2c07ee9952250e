// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Values that programs read through a pointer while user space replaces them.
//
// A hash map uses the memory of an element again as soon as the element is replaced or deleted; since Linux 6.1 also
// without preallocation. A program that has just found the element on another CPU would read a mixture of two values.
// So each version of a value is an element of its own, and a word of shared memory says which version counts. User
// space inserts the new element, changes the word, and deletes the old element after a grace period, when no run of a
// program can have seen the old word.
#pragma once

#include "maps.h"

struct version_key {
	u64 version;
	u32 index, pad;
};

// VERSIONED is such a map: at most count values at a time. name_versions has the version by index; 0: there is none.
#define VERSIONED(name, count, type_) \
	SHARED_ARRAY(name##_versions, count, u64); \
	HASH(name##s, 2 * (count), struct version_key, type_)

// find_version looks up the value with an index.
INLINE void *find_version(void *versions, void *values, u32 index)
{
	u64 *version = bpf_map_lookup_elem(versions, &index);
	struct version_key key = { .index = index };

	if (!version)
		return 0;
	key.version = *(volatile u64 *)version;
	return key.version ? bpf_map_lookup_elem(values, &key) : 0;
}
