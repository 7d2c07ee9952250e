// Package handover lets a new process of the relay replace a running one: it takes over the UDP port, while the old
// process serves the sessions that it has until they have moved.
//
// A running relay has a [Control], a Unix socket. A process that is to replace it calls [Request] and gets a
// [Takeover]: a number among the processes that share the port (package steer), and all it needs to join them. It then
// makes all its parts. The certificate is handed over only if the running relay has made it itself. The steps are
// messages on one connection:
//
//	new process                                   running relay
//	     │ request ─────────────────────────────────►│
//	     │◄─── offer: number, address, files, … ─────┤ one at a time
//	     │ opens its socket, loads its programs, …   │
//	     │ ready ───────────────────────────────────►│
//	     │                                           │ makes the new process the newest: the commit point
//	     │◄──────────────────────────────── done ────┤
//	     │ serves, and has the control socket        │ drains
//
// If the connection ends before the commit point, for whatever reason, nothing has happened: the socket of the new
// process gets no datagram before. A new process that is late to receive done lets the other one send nothing more, and
// looks whether it has come.
//
// A [Port] is the UDP port of a process on either side. It configures a transport listener.
package handover
