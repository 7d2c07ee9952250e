// Package steer lets several sockets share a UDP port: sockets of a process, and of the processes that it replaces.
// Each datagram goes to the socket that has its connection. Datagrams of new clients go to the newest process.
//
// The sockets form a group (SO_REUSEPORT, socket(7)). For each datagram a program in the kernel (package
// [sluice/server/steer/bpf]) chooses a socket of the group. Each process has a [Number], and numbers its sockets. The
// connection IDs that a socket issues name both, see [IDs].
//
//	client ── packet with a connection ID of process 0, socket 1 ──┐         ┌──► process 0, socket 0
//	                                                               ├─ steer ─┼──► process 0, socket 1
//	client ── Initial, with a connection ID of its own ────────────┘         └──► process 1, the newest
//
// So a connection stays at its socket when its client gets another address. A new client gets to a socket of the newest
// process by a hash of its addresses.
//
// The first process binds one socket alone, so that no other program has the port, and makes a [Group] of it by
// [Create], which opens its other sockets. A process that replaces it joins by [Join], with the group's maps, which the
// first one hands over ([Group.Maps]). It gets no datagram until [Group.Promote] makes it the newest. When a socket is
// closed, the kernel takes it out of the group. A process that drains tells the others how many sessions it still has
// ([Group.Tell]).
//
// If several sockets are each read on a CPU of their own, it is best if datagrams come on that CPU. The reader of a
// socket notes where it runs ([Group.Woken]), and the program counts which datagrams came there ([Group.Arrivals]).
package steer
