// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// How a connection ID names a socket of a process, and what the program, or the processes, share.
#pragma once

#include <sluice/types.h>

// A process has a number, and so has each of its sockets. The connection IDs of a socket begin with the number of the
// process and its complement, so a connection ID that a client has chosen at random for its first packets names a
// process once in 65,536 times. The low bits of the third byte are the number of the socket.
enum naming {
	NUMBERS = 256, // of processes that share a port
	MAX_SOCKETS = 16, // of one process, a power of two
	CONNECTION_ID_LEN = 8, // bytes
};

// Why a datagram went to a socket.
enum steer_verdict {
	STEER_NAMED, // its connection ID names the socket
	STEER_NEWEST, // it names none: a new client, or no QUIC packet
	STEER_GONE, // it names one that is closed, or never was: to the newest process, which tells the client
	STEER_ANY, // the newest process has ended: the kernel chooses a socket of one of the others
	STEER_VERDICTS,
};

// The sockets of the processes: socket s of process p is at p * MAX_SOCKETS + s. The kernel takes a socket out when it
// is closed.
struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, NUMBERS * MAX_SOCKETS);
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

// What a process tells the others. The program looks at the sockets only.
struct process {
	u32 pid;
	u32 sessions; // while it drains
	u32 sockets; // how many it has
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

// The CPU on which the reader of a socket has woken last, plus 1, or 0 if nobody tells. Readers write it, each its own,
// and only when it changes.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NUMBERS * MAX_SOCKETS);
	__type(key, u32);
	__type(value, u64);
} readers SEC(".maps");

// How many datagrams came on the CPU on which the reader of their socket has woken last, and how many on another one.
struct arrivals {
	u64 same_cpu;
	u64 other_cpu;
};

// By the number of the socket, of all processes.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, u32);
	__type(value, struct arrivals);
} arrived SEC(".maps");

GO_TYPE(enum, naming);
GO_TYPE(enum, steer_verdict);
