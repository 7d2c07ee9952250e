// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Entries for tests and benchmarks of the cryptography: user space writes the scratch and the arguments, runs one
// program, and reads the scratch back.
//go:build ignore

#include "../transport/aead.h"

struct crypto_args {
	struct packet_keys keys;
	u64 pn;
	u32 src, aad_len, len, connection;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct crypto_args);
} args SEC(".maps");

// test_poly leaves the authenticator of n blocks at IN + PAYLOAD_AT in tag. The key stream is zeros.
INLINE int test_poly(struct scratch *c, u32 n, bool sealing)
{
	u32 chunks = n / 4;

	if (chunks > MAX_PAYLOAD / CHUNK)
		return -1;
	poly1305_start(c);
	if (sealing)
		seal_chunks(c, computed_stream(c), IN + PAYLOAD_AT, chunks);
	else
		open_chunks(c, computed_stream(c), chunks);
	poly1305_blocks(&c->poly, c->buf + IN + PAYLOAD_AT + chunks * CHUNK, n % 4);
	return poly1305_finish(c);
}

// TEST_ENTRY wraps an expression over the scratch c and the arguments a; its value is the program's return value.
#define TEST_ENTRY(name, expr) \
	SEC("tc") int name(struct __sk_buff *skb) \
	{ \
		u32 zero = 0; \
		struct scratch *c = scratch_get(); \
		struct crypto_args *a = bpf_map_lookup_elem(&args, &zero); \
		return c && a ? (expr) : -1; \
	}

TEST_ENTRY(test_empty, 0)
TEST_ENTRY(test_half_block, chacha20_half_block(c))
TEST_ENTRY(test_stream, chacha20_stream(c, a->len))
TEST_ENTRY(test_poly_sealing, test_poly(c, a->len, true))
TEST_ENTRY(test_poly_opening, test_poly(c, a->len, false))
TEST_ENTRY(test_encrypt, encrypt(c, computed_stream(c), COMPUTED_LEN, a->src, a->len))
TEST_ENTRY(test_seal, (c->aad_len = a->aad_len, aead_seal(c, &a->keys, a->connection, a->pn, a->src, a->len)))
TEST_ENTRY(test_open, aead_open(c, &a->keys, a->connection, a->pn, a->aad_len, a->len))
TEST_ENTRY(test_mask, header_mask(c, &a->keys, (u32 *)(c->buf + OUT + PAYLOAD_AT)))

GO_TYPE(enum, scratch_layout);

char _license[] SEC("license") = "Dual BSD/GPL";
