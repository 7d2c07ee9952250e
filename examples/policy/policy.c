// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// A policy of your own: what a relay sends to a subscriber whose path is too slow, decided in the kernel. Audio and key
// frames go, the others while they are young. While the congestion window is more than three quarters full, the frames
// that nothing refers to go in every other group only.
//
//	clang -target bpfel -O2 -g -I fastpath/bpf/policy -I internal/bpf/include -c examples/policy/policy.c -o policy.o
//	sudo sluice relay --dev --policy policy.o
//go:build ignore

#include "admission.h"

// Publisher Priorities, as sluice pub --packaging loc has them by default.
#define KEY_FRAMES 96 // and audio, which is before them
#define REFERENCES 128

const volatile u64 young = 200 * 1000 * 1000; // nanoseconds

static bool is_crowded(const struct admission *a)
{
	return (a->in_flight + a->packet_len) * 4 > a->window * 3;
}

SEC("policy") int admit(struct admission *a)
{
	if (!a) // the verifier wants to know
		return DECLINE;
	u32 priority = a->level & 0xff;

	if (priority <= KEY_FRAMES)
		return ADMIT;
	if (a->age > young)
		return DECLINE;
	if (priority <= REFERENCES || !is_crowded(a))
		return ADMIT;
	return a->group % 2 ? DECLINE : ADMIT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
