// Package streams is a model of how the forwarder and the media sender share a downstream stream: who opens it, how the
// media sender adopts it, how the log goes on with another publisher's stream, and how a stream ends and its slot goes
// to another one.
//
// There is one subscriber, and a subgroup of three bytes. Each is an object and a frame of its own; the first frame
// also has the subgroup's header, and the last one FIN. Publisher A's stream brings the subgroup. It may break off
// anywhere, also where the forwarder has more of it than user space. Then B's stream goes on with the log, or nothing
// does. B's bytes may differ from A's. The forwarder has two runs at a time, because a frame can come twice, to two
// processors. These files have the rules, by who follows them:
//
//	kernel.go      the forwarder: find or open the stream, claim, send
//	relay.go       user space reads A's stream into the log, and B's, and abandons unwanted streams
//	media.go       the media sender: open or adopt, claim from the log, detach, reset
//	reclaimer.go   slots go to others
//
// Each rule says which code it is. [Rules] are rules of the protocol that can be broken; each of the invariants fails
// without some of them:
//
//	I1   a byte of the stream is claimed once
//	I7   up to the end of the stream, the log holds the bytes that were claimed at each offset; no claim lies beyond
//	     the end of a log that has ended whole
//	I8   one sender opens the stream: the subgroup's header is sent once
//	I9   the forwarder claims only bytes of the source that the stream goes on with
//	I10  a run does not use a slot that was given to another stream
//	I12  a stream that was opened ends: all of it is delivered, or it is reset
//
// Loss and ACKs are in package packets.
package streams
