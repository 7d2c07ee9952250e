// Package streams is a model of how the forwarder and the media sender share a downstream stream: who opens it, how the
// media sender adopts it, how the log goes on with another publisher's stream, how the forwarder goes on with that, and
// how a stream ends and its slot goes to another one.
//
// There is one subscriber, and a subgroup of three bytes. Each is an object and a frame of its own; the first frame
// also has the subgroup's header, and the last one FIN. Publisher A's stream brings the subgroup. It may break off
// anywhere, also where the forwarder has more of it than user space. Then B's stream goes on with the log, or C's, or
// nothing does. Their bytes may differ from A's.
//
// User space writes B's first object anew. Behind it B's stream is the log's origin: what follows are its bytes, at
// offsets that differ by a delta, which may be zero. So the forwarder goes on, if user space gives it a slot for B's
// stream with the cursor in B's offsets. B's stream may break off as A's does, and B may leave. The forwarder does not
// see C's stream. A publisher that comes back has another stream, so it is another publisher here.
//
// The forwarder has two runs at a time, and each may stall between any of its steps. User space reads frames late, or
// never: then they were lost behind the forwarder. What may happen is cut into two [World]s. In [Opening] both runs are
// for A's frames, because a frame can come twice, to two processors. In [Switching] each publisher has one, and a frame
// of B's can come twice. These files have the rules, by who follows them:
//
//	kernel.go      the forwarder: find or open the stream, claim, send
//	relay.go       user space reads A's stream into the log, and B's, and abandons unwanted streams
//	media.go       the media sender: open or adopt, claim from the log, detach, attach, reset
//	reclaimer.go   slots go to others, and streams are hidden whose publisher has left
//
// Each rule says which code it is. [Rules] are rules of the protocol that can be broken; each of the invariants fails
// without some of them:
//
//	I1   a byte of the stream is claimed once
//	I7   up to the end of the stream, the log holds the bytes that were claimed at each offset; no claim lies beyond
//	     the end of a log that has ended whole
//	I8   one sender opens the stream: the subgroup's header is sent once
//	I9   the forwarder claims only bytes of the log's origin: none of a stream after bytes of the next one, none of
//	     B's before the log offset where they begin, and none in a run that finds another publisher in the list
//	I10  a run does not use a slot that was given to another stream, nor find one of a publisher whose index it has
//	I12  a stream that was opened ends: all of it is delivered, or it is reset; then its slot is free again, and B's
//	     subgroup is forgotten
//
// Loss and ACKs are in package packets.
package streams
