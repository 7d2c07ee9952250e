// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Values that programs read through a pointer while user space replaces them.
//
// A hash map uses the memory of an element again as soon as the element is replaced or deleted; since Linux 6.1 also
// without preallocation. A program that has just found the element on another CPU would read a mixture of two values.
// So each version of a value is an element of its own, and a word of shared memory says which version counts. User
// space inserts the new element, changes the word, and deletes the old element after a grace period, when no run of a
// program can have seen the old word.
//
// A value that is too large for most uses has parts, each an element of its own. They all have the version in their
// keys, so a program that has read the word finds parts of one value.
#pragma once

#include "maps.h"

struct version_key {
	u64 version;
	u32 index, part;
};

// VERSIONED is such a map: at most count values of one part at a time. name_versions has the version by index; 0: there
// is none.
#define VERSIONED(name, count, type_) \
	GROWING(name##_versions, count, u64) \
	HASH(name##s, 2 * (count), struct version_key, type_)

// current_version reads an element of name_versions, if there is one.
INLINE u64 current_version(const u64 *version)
{
	return version ? *(const volatile u64 *)version : 0;
}

// find_part looks up a part of a version of the value with an index.
INLINE void *find_part(void *values, u32 index, u64 version, u32 part)
{
	struct version_key key = { .version = version, .index = index, .part = part };

	return version ? bpf_map_lookup_elem(values, &key) : 0;
}
