// Package programs does in Go what the kernel's programs do (sluice/fastpath/bpf), in front of a simulated socket and
// in virtual time. With it the whole of package fastpath can live in a simulation: all but the C code is what runs in
// production.
//
// A [Kernel] has two processors. Each takes the packets that come to the relay one after the other, runs
// server_ingress on each, and then passes it on to the socket. A run does what the C code does, in the same order and
// for the same reasons:
//
//	ingress_linux.go   server_ingress: open the packet, offer its frames (transport/open.h, numbers.h)
//	frames_linux.go    the frames of a packet, and headers of subgroups (transport/frames.h, application/moqt.h)
//	stream_linux.go    copies of STREAM frames: find or open the stream, claim, send (fanout/stream.h)
//	datagram_linux.go  copies of DATAGRAM frames (fanout/datagram.h, application/object.h)
//	claim_linux.go     the claim, by the functions of package claim (shared/claim.h)
//	seal_linux.go      the packet of a copy (transport/seal.h, application/subgroup.h)
//
// What a kernel and a machine may do follows from a seed ([Habits]): a run is late between any two of its steps, while
// user space and the other processor go on; it may make few copies; a device refuses packets; there are few slots.
//
// There is no ECN, and no operator's rule.
package programs
