// Package packets is a model of how the forwarder and the media sender number packets on one connection, and of how the
// media sender learns which packets have arrived: from ACKs that the socket's reader opens or leaves to quic-go. Keys
// change once, the network loses a packet or an ACK, or brings an ACK late or twice, and the connection's index goes to
// another connection.
//
// A stream has two bytes, each in a packet of its own. Either sender may claim them; the media sender alone sends them
// again. These files have the rules, by who follows them:
//
//	kernel.go    the forwarder: take a number, write the record, seal and send
//	network.go   packets and ACKs under way, and the peer
//	reader.go    the socket's reader and quic-go: who opens an ACK
//	media.go     the media sender's turns, its alarm, and how it handles an ACK
//	end.go       the connection ends, and another one gets its index
//
// Each rule says which code it is. [Rules] are rules of the protocol that can be broken; each of the invariants fails
// without some of them:
//
//	I2   a packet number is used once, and never under an older key than a lower one
//	I3   a packet has its record before it can be acknowledged
//	I10  no run uses the state of a connection that has its index from another
//	I11  each ACK is handled once, and before a packet that it acknowledges is considered lost by what came after it
//	I12  each claimed byte arrives at last, because something that may have been lost is sent again
//
// Skipped numbers, and peers that acknowledge packets that they have not received, are in the tests of package claim.
package packets
