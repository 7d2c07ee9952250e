// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// DNS messages (RFC 1035 §4): the header, and a hash of the question. The names themselves are not kept.
#pragma once

#include "message.h"

#define DNS_PORT bpf_htons(53)

#define DNS_RESPONSE 0x8000
#define DNS_OPCODE 0x7800 // 0 is QUERY
#define DNS_TRUNCATED 0x0200
#define DNS_NOT_IN_QUERY 0x04cf // AA, RA, the reserved bit and RCODE
#define DNS_RCODE 0x000f

#define DNS_NAME_MAX 255
#define DNS_LABEL_MAX 63
#define DNS_LABELS_MAX 128
#define DNS_QUESTION_MAX (DNS_NAME_MAX + 4) // with type and class

struct dns_header {
	u16 id;
	u16 flags;
	u16 questions;
	u16 answers;
	u16 authorities;
	u16 additionals;
};

// The question that is being hashed. It is too large for the stack.
struct dns_question {
	u8 bytes[DNS_QUESTION_MAX + 5]; // a whole number of words
	volatile u32 at;
	u32 length; // of bytes that are in the packet
};
_Static_assert(sizeof(struct dns_question) == 272, "dns_question has no hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dns_question);
} questions SEC(".maps");

INLINE struct dns_question *dns_question_get(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&questions, &zero);
}

// dns_skip_name moves q->at past the name. A name in a question is not compressed: nothing precedes it.
INLINE bool dns_skip_name(struct dns_question *q)
{
	u32 at;
	u8 n;

	q->at = 0;
	for (int i = 0; i < DNS_LABELS_MAX; i++) {
		at = q->at;
		if (at >= q->length || at >= DNS_NAME_MAX)
			return false;
		n = q->bytes[at];
		q->at = at + 1 + n;
		if (!n)
			return true;
		if (n > DNS_LABEL_MAX)
			return false;
	}
	return false;
}

// dns_fold hashes the first n bytes, a word at a time. It ignores case, which a resolver may change, and thereby bit 5
// of other characters, which does no harm.
INLINE u64 dns_fold(const struct dns_question *q, u32 n)
{
	u64 hash = n, word;

	for (u32 i = 0; i < DNS_QUESTION_MAX / 8 + 1; i++) {
		if (i * 8 >= n)
			break;
		word = *(const u64 *)(q->bytes + i * 8) | 0x2020202020202020ull;
		if (n - i * 8 < 8)
			word &= (1ull << (n - i * 8) * 8) - 1;
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash;
}

// dns_hash hashes the question that was read.
GLOBAL enum outcome dns_hash(struct message *m)
{
	struct dns_question *q = dns_question_get();
	u32 end;

	if (!m || !q || !dns_skip_name(q))
		return OUTCOME_DNS_MALFORMED;
	end = q->at;
	if (end > DNS_NAME_MAX || end + 4 > q->length)
		return OUTCOME_DNS_MALFORMED;
	m->query_type = q->bytes[end] << 8 | q->bytes[end + 1];
	m->id = dns_fold(q, end + 4);
	return OUTCOME_CONTINUE;
}

// dns_is_query reports whether flags and counts are a standard query's, which has a question and perhaps additional
// records (EDNS, RFC 6891), but nothing else.
INLINE bool dns_is_query(const struct dns_header *h, u16 flags)
{
	return !(flags & (DNS_RESPONSE | DNS_NOT_IN_QUERY)) && !h->answers && !h->authorities;
}

INLINE bool is_dns(const struct cursor *c, const struct packet *p)
{
	return is_port(p, DNS_PORT);
}

// dns_read_header reads the header, and the question into questions. Of a message that a capture has cut, the question
// may be complete.
INLINE enum outcome dns_read_header(const struct cursor *c, u32 at, struct message *m)
{
	struct dns_question *q = dns_question_get();
	struct dns_header h;
	u32 n = m->length - sizeof(h);
	u16 flags;

	if (!q || m->length < sizeof(h) || !cursor_copy(c, at, &h, sizeof(h)))
		return OUTCOME_DNS_MALFORMED;
	flags = bpf_ntohs(h.flags);
	if (flags & DNS_OPCODE || h.questions != bpf_htons(1))
		return OUTCOME_DNS_OTHER;
	if (!(flags & DNS_RESPONSE) && !dns_is_query(&h, flags))
		return OUTCOME_DNS_OTHER;
	m->id_rest = bpf_ntohs(h.id);
	m->response = flags & DNS_RESPONSE;
	m->truncated = flags & DNS_TRUNCATED;
	m->rcode = flags & DNS_RCODE;
	n = cursor_left(c, at + sizeof(h), n);
	if (n > DNS_QUESTION_MAX)
		n = DNS_QUESTION_MAX;
	q->length = n;
	if (!n || !cursor_copy(c, at + sizeof(h), q->bytes, n))
		return OUTCOME_DNS_MALFORMED;
	return OUTCOME_CONTINUE;
}

// dns_read reads a message and hashes its question.
INLINE enum outcome dns_read(const struct cursor *c, const struct packet *p, u32 at, struct message *m)
{
	enum outcome outcome = dns_read_header(c, at, m);

	outcome = outcome ?: dns_hash(m);
	if (!outcome && server_port(p, m) != DNS_PORT)
		return OUTCOME_DNS_OTHER;
	return outcome;
}
