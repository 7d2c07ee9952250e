// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What the programs on the ports of the network host share.
#pragma once

#include <stddef.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define INLINE static __always_inline

// A lane is one direction of a link. Its number fits a VLAN ID, because that is how the wire's packets carry it back.
#define LANES 4096
enum direction { FROM_HOST, TO_HOST };
#define LANE(ifindex, direction) ((ifindex) << 1 | (direction))
#define LANE_PORT(lane) ((lane) >> 1)
#define LANE_DIRECTION(lane) ((lane) & 1)

// A packet whose mark names the lane has had its conditions: it is a duplicate, or comes back from the wire.
#define DONE(lane) (0x51ab0000 | (lane))
