// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// How a connection ID names a process, and what the program, or the processes, share.
#pragma once

#include <sluice/types.h>

// A process has a number. The connection IDs that it issues begin with this number and its complement, so a connection
// ID that a client has chosen at random for its first packets names a process once in 65,536 times.
enum naming {
	NUMBERS = 256, // of processes that share a port
	CONNECTION_ID_LEN = 8, // bytes
};

// Why a datagram went to a process.
enum steer_verdict {
	STEER_NAMED, // its connection ID names the process
	STEER_NEWEST, // it names none: a new client, or no QUIC packet
	STEER_GONE, // it names one that has ended: to the newest, which tells the client
	STEER_ANY, // the newest has ended: the kernel chooses one of the others
	STEER_VERDICTS,
};

// The sockets of the processes, by number. The kernel takes out those that are closed.
struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, NUMBERS);
	__type(key, u32);
	__type(value, u64);
} sockets SEC(".maps");

// The number of the process that gets new clients.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} newest SEC(".maps");

// What a process tells the others. The program does not look at it.
struct process {
	u32 pid;
	u32 sessions; // while it drains
};

// The processes, by number. Only those that have a socket are there.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NUMBERS);
	__type(key, u32);
	__type(value, struct process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STEER_VERDICTS);
	__type(key, u32);
	__type(value, u64);
} verdicts SEC(".maps");

GO_TYPE(enum, naming);
GO_TYPE(enum, steer_verdict);
