// Package congestion decides how much a connection may have in flight and how fast its packets leave: congestion
// controllers, pacing, and the estimate of the round-trip time.
//
// A [Controller] serves one connection. The media sender reports packets to it, and asks it for a window and a rate:
//
//	packet sent ──► Sent ─────┐
//	ACK frame ────► Acked ────┤                ┌──► Window: most bytes in flight; both senders of a connection obey it
//	loss found ───► Lost ─────┼─► Controller ──┤
//	not lost ─────► Spurious ─┤                └──► Rate: bytes per second, for the [Pacer]
//	new path ─────► Reset ────┘
//
// [NewCubic] makes the default controller: CUBIC (RFC 9438) with HyStart++ (RFC 9406).
//
// # How to write a controller
//
// Implement [Controller], and set media.SenderConfig.NewController to a function that makes one for each connection.
// A controller needs no lock, because it is called by one goroutine at a time, with the lock of its sender held. For
// the same reason it must not block and must not call the sender.
//
// Loss detection (RFC 9002 §6) is the sender's. A controller hears of the result: one [AckEvent] for each ACK frame
// that acknowledges something new, one [LossEvent] for all packets found lost at one time, and a call of Spurious for
// each packet that was reported lost and arrives after all. Packets of both senders of the connection are reported to
// Acked and Lost. Sent is called only for packets of the media sender: those that a forwarder sends appear in
// InFlight.
//
// An event with AppLimited says nothing about the path: the publisher, and not the window, limited what was sent.
// A controller should not grow its window then.
//
// The sender keeps the window between [MinWindow] and [MaxWindow], whatever the controller returns. A rate of 0 turns
// pacing off. The [Pacer] lets about half a window leave at once, so that a video frame on an idle path is not
// delayed.
package congestion
