// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The entry by which the media sender asks an operator's program that has taken the place of admit. It runs by
// BPF_PROG_RUN, on a packet that holds the question behind an Ethernet header.
//go:build ignore

#include "policy/admit.h"

#define QUESTION_AT 14

// As much as rtp_ingress has on the stack when it calls admit, and server_ingress less: what fits here fits there.
#define CALLERS_STACK 320

SEC("tc") int ask(struct __sk_buff *skb)
{
	struct {
		volatile u8 first;
		u8 others[CALLERS_STACK - sizeof(struct admission) - 1];
		struct admission question;
	} stack;

	stack.first = 0;
	if (bpf_skb_load_bytes(skb, QUESTION_AT, &stack.question, sizeof(stack.question)))
		return DECLINE;
	return admit(&stack.question);
}

char _license[] SEC("license") = "Dual BSD/GPL";

GO_TYPE(enum, answer);
