// Package steer lets several processes share a UDP port: each datagram goes to the process that has its connection, and
// those of new clients go to the newest process.
//
// The sockets of the processes form a group (SO_REUSEPORT, socket(7)). For each datagram a program in the kernel
// (package [sluice/internal/steer/bpf]) chooses a socket of the group. Each process has a [Number], and the connection
// IDs that it issues name it, see [Number.GenerateConnectionID].
//
//	client ── packet with a connection ID of process 0 ─────┐         ┌──► process 0, which drains
//	                                                        ├─ steer ─┤
//	client ── Initial, with a connection ID of its own ─────┘         └──► process 1, the newest
//
// The first process binds its socket alone, so that no other program has the port, and makes a [Group] of it by
// [Create]. A process that replaces it joins by [Join], with the group's maps, which the first one hands over
// ([Group.Maps]). It gets no datagram until [Group.Promote] makes it the newest. When a socket is closed, the kernel
// takes it out of the group. A process that drains tells the others how many sessions it still has ([Group.Tell]).
package steer
