// Package packets is a model of how the forwarder and the media sender number packets on one connection, and of how the
// media sender learns what has arrived: from ACKs that come up, and from ACKs that the forwarder has taken. Keys change
// once, the network loses a packet or an ACK, and the connection's index goes to another connection.
//
// A stream has two bytes, each in a packet of its own. Either sender may claim them; the media sender alone sends them
// again. These files have the rules, by who follows them:
//
//	kernel.go    the forwarder: take a number, write the record, seal and send; and take ACKs from the network
//	network.go   packets and ACKs under way, and the peer
//	media.go     the media sender's turns, its alarm, and quic-go, which gets the other ACKs
//	queue.go     the queue of taken ACKs, which both empty
//	end.go       the connection ends, and another one gets its index
//
// Each rule says which code it is. [Rules] are rules of the protocol that can be broken; each of the invariants fails
// without some of them:
//
//	I2   a packet number is used once, and never under an older key than a lower one
//	I3   a packet has its record before it can be acknowledged
//	I10  no run uses the state of a connection that has its index from another, and no ACK goes to it
//	I11  each taken ACK is handled once, and before any packet is considered lost that it acknowledges
//	I12  each claimed byte arrives at last, because something that may have been lost is sent again
//
// A number that is skipped, and what a peer acknowledges that has not received it, are in the tests of package claim.
package packets
