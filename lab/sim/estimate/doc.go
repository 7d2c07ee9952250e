// Package estimate finds out how well an observer can tell the RTT of a QUIC connection after its handshake, if neither
// end spins: from when packets pass, in which direction, and how long they are. Nothing else is in the clear.
//
// [ToEnd] is the observer. It tries all delays between itself and an end, and asks for each whether what that end has
// sent came when it had to: an ACK after every second packet or 25 ms after a single one, or the data of a sender whose
// window is full when an ACK makes room. If one delay explains most of it, and no other does, that is the RTT.
//
// [Compare] has real connections of quic-go on a simulated path, whose delay is known exactly, and says how far the
// estimates are from it. Time is virtual, and the path does nothing that is not in a [Case]: it has no jitter. What
// cannot be told there cannot be told elsewhere.
package estimate
