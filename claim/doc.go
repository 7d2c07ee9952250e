// Package claim lets two senders send on one QUIC connection without a lock, and without asking each other.
//
// The two senders of a subscriber's connection are the media sender, in user space, and the [Forwarder], which sees a
// publisher's packets before user space does. Ours is the kernel: package fastpath. Both send the same bytes of the
// same streams under the same keys, so they share packet numbers, stream ids, flow control credit, the congestion
// window, and for each stream a cursor. All of it lies in memory that both have mapped: one [ConnState] for a
// connection, one [StreamState] for a downstream stream, and a ledger of sent packets. Every access is atomic.
//
//	                publisher's packet
//	                        │
//	     ┌──────────────────┴──────────────┐
//	     ▼                                 ▼
//	 forwarder        ConnState        media sender
//	(fastpath:  ─────► next number ◄────  (media)
//	the kernel)        window, credit        │
//	     │           StreamState             │
//	     ├──────────► cursor ◄───────────────┤  who moves it sends
//	     │            Ledger                 │
//	     ├──────────► records ◄──────────────┤  one for each packet
//	     ▼                                   ▼
//	  copy of the packet               packet from the log
//	     └───────────► subscriber ◄──────────┘
//
// # The protocol
//
// The bytes of a subgroup stream are kept in a log, at the offsets of the publisher's stream. A downstream stream is a
// prefix of its own and then the bytes of the log. Its cursor, [StreamState.Next], is the log offset of the first byte
// that no sender has claimed. To send the bytes from a to b for the first time, a sender
//
//  1. looks: it checks all that can be checked without taking anything: is the cursor at a, does the priority pass, is
//     there window, stream credit, room in the ledger;
//  2. begins: it announces itself in [ConnState.Writers] and takes a packet number ([ConnState.Begin]);
//  3. takes: connection credit ([ConnState.TakeData]), and then the bytes, by a compare-and-swap of the cursor from a
//     to b ([StreamState.Claim]). This is the commit point. A sender that fails here gives back the credit and aborts
//     ([ConnState.Abort]). Its packet number stays unused, which QUIC allows (RFC 9000 §12.3);
//  4. commits: it writes the record and leaves Writers ([ConnState.Commit]). From here on the packet counts as sent;
//  5. builds the packet and sends it. If that fails, the packet is lost, and loss recovery repairs that like any loss.
//
// The forwarder never waits and never repeats. Where it cannot go on it declines, counts the reason, and leaves the
// bytes to the media sender, which sees the same packet a little later. The media sender alone retransmits, because
// repeated bytes need no claim: it only takes a packet number and writes a record.
//
// What follows from this:
//
//   - Each byte is first sent by exactly one sender (I1): the cursor moves over it once.
//   - A packet number is used once, under one key (I2): number and key generation are one word, and one fetch-and-add
//     takes both. When the connection ends, and its state leaves the shared memory, a bit of that word tells a
//     forwarder that takes a number too late not to use it ([ConnState.MoveTo]).
//   - A packet has its record before it can be acknowledged (I3): the packet is built after the commit.
//
// # The ledger
//
// The ledger is a ring of records, indexed by packet number. An ACK is processed by reading the records that it covers,
// so no sender has to tell the other about its packets. Numbers without a record are quic-go's own, or were never used.
// [ConnState.Settled] returns a number below which no record is still to come: it reads the next number, and then
// expects Writers to be 0.
//
// # Who opens a stream
//
// Whoever sees the first byte of a publisher's stream first opens the downstream stream. It has the stream for itself,
// in phase [StreamOpening], until the prefix is sent; then it is [StreamOpen] for both. A stream that the forwarder has
// opened is adopted by the media sender when user space gets to it ([ForwarderConn.OpenStream]), or abandoned if no
// subscription wants it. An opening that takes too long is the forwarder's if it has moved the cursor. If not, the
// cursor is closed, so that it cannot, and the media sender opens another stream.
//
// # Who leaves a stream
//
// A forwarder sends the bytes of one publisher's stream. When that breaks off, and another one goes on with the log,
// the bytes that follow may differ. So the media sender moves the cursor to memory of its own ([StreamState.MoveTo])
// before it takes any of these from the log. A cursor that is not ahead of the place where the stream broke off goes
// on. One that is ahead stops: the forwarder has sent bytes that user space will never have, and the stream ends.
//
// A cursor that goes on moves back into the forwarder's memory when it is where the log has the other stream's bytes,
// unchanged. From then on it counts the offsets of that stream, as the forwarder does, and Delta turns them into those
// of the downstream stream.
//
// # The same protocol in C
//
// fastpath/bpf/shared has the forwarder's side: claim.h and state.h. Both sides use the same names, and the constants
// here are generated from there. Package claimtest tries the protocol in every order of its steps, also with what a
// forwarder does around it: jobs for workers, indices that are used again. fastpath's tests run the real program
// between any two steps of the media sender.
package claim
