// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Measures softirqs twice: whose packets they handle, and in whose time they run. The kernel charges a softirq to the
// process that it interrupts, whoever that is. The two sums say what to take from a process, and what to give to the
// host whose packets were handled.
//go:build ignore

#include "process.h"

// The part that a process or a network namespace has in a trial.
enum role { ROLE_NOBODY, ROLE_RELAY, ROLE_PUBLISHER, ROLE_SUBSCRIBERS, ROLES };

GO_TYPE(enum, role);

// NET_TX_SOFTIRQ and NET_RX_SOFTIRQ of linux/interrupt.h.
#define SOFTIRQ_NET_TX 2
#define SOFTIRQ_NET_RX 3

struct softirq_times {
	u64 since;                // the times below are complete until then; CLOCK_MONOTONIC, ns; 0: no softirq runs
	u32 handles, interrupts;  // roles, of the running softirq
	u64 devices[ROLES];       // ns, by the role of the network namespace whose device received the packet
	u64 processes[ROLES];     // ns, by the role of the interrupted process
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct softirq_times);
} softirqs SEC(".maps");

#define MEMBERS 1024

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMBERS);
	__type(key, u32); // process id
	__type(value, u32);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMBERS);
	__type(key, u32); // inode of a network namespace
	__type(value, u32);
} namespaces SEC(".maps");

// The role of network softirqs before they handle a packet: a driver that takes packets from its device, GRO.
const volatile u32 drivers;

// The parts of the kernel's structs that are read here; CO-RE finds the fields.
struct ns_common {
	u32 inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
} __attribute__((preserve_access_index));

INLINE struct softirq_times *on_this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&softirqs, &zero);
}

INLINE u32 role_in(void *map, u32 key)
{
	u32 *role = bpf_map_lookup_elem(map, &key);

	return role ? *role : ROLE_NOBODY;
}

// settle adds the time since the last event. An index that the verifier sees to be in range needs no branch.
_Static_assert(ROLES == 4, "a mask of two bits keeps a role in range");
INLINE void settle(struct softirq_times *s)
{
	u64 now = bpf_ktime_get_ns();

	s->devices[s->handles & 3] += now - s->since;
	s->processes[s->interrupts & 3] += now - s->since;
	s->since = now;
}

SEC("raw_tp/softirq_entry")
int softirq_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct softirq_times *s = on_this_cpu();
	u64 kind = ctx->args[0];

	if (!s)
		return 0;
	s->handles = kind == SOFTIRQ_NET_TX || kind == SOFTIRQ_NET_RX ? drivers : ROLE_NOBODY;
	s->interrupts = role_in(&processes, current_process());
	s->since = bpf_ktime_get_ns();
	return 0;
}

// A packet begins its way up the stack of its device's namespace. It ends with the next one, or with the softirq.
SEC("tp_btf/netif_receive_skb")
int receive(u64 *ctx)
{
	struct softirq_times *s = on_this_cpu();
	struct sk_buff *skb = (void *)ctx[0];

	if (!s || !s->since)
		return 0;
	settle(s);
	s->handles = role_in(&namespaces, skb->dev->nd_net.net->ns.inum);
	return 0;
}

SEC("raw_tp/softirq_exit")
int softirq_exit(void *ctx)
{
	struct softirq_times *s = on_this_cpu();

	if (s && s->since) {
		settle(s);
		s->since = 0;
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
