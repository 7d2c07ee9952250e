// Package media sends the subscription data of many subscribers, each on the QUIC connection that it shares with
// quic-go.
//
// quic-go does the handshake, control streams, FETCH responses and reception. The media sender does the rest:
// subgroup streams and object datagrams. It shares packet numbers, stream ids, credit and cursors with a forwarder,
// which sends the same bytes on the same connections as soon as a publisher's packets arrive. Package claim teaches
// how both do that without a lock. This package is the same with and without a forwarder.
//
// # How the parts fit together
//
//	relay ── NewSubscription ──► Subscription ── OpenStream(prefix, log, start) ──► Stream: prefix + log[start:]
//	                                   └──────── SendDatagram ──► datagram              │
//	                                                   │                                ▼
//	log grows ──► feed ──► shard ──► Sender ──► turn ──┴──────► scheduler: what is first?
//	                                   ▲                                                │
//	                quic-go's hooks ───┤                            cursor ◄── claim ── ┤
//	         ACKs, credit, keys, path  │                            ledger ◄── record ──┤
//	                                   │                                                ▼
//	                                   └── recovery ◄── ledger                  seal ──► batch ──► socket
//
// A [Loop] serves all senders of one UDP port. It has few shards, each of which is a goroutine with a run queue, a
// heap of alarms and a batch of packets (internal/udp). A [Sender] is one connection, and belongs to one shard. By its
// [Hooks], quic-go takes packet numbers and credit from it, and shows it ACKs, flow control frames, keys and paths.
// Which end has dialed hardly matters, see [SenderConfig].
//
// A [Subscription] opens streams and sends datagrams. A [Stream] is a cursor on a log: a prefix of its own, and the
// log's bytes from an offset on. Nothing is copied before a packet is built. All streams of a shard that follow one
// log share a feed, so that a log that grows wakes the shard once, and not each of a thousand subscribers.
//
// The ledger is a ring with a record for each packet, of both senders, indexed by packet number. A packet carries one
// frame, so one record describes it, and "send it again" means to send the frame in the record again.
//
// # One packet
//
// A publisher's bytes are appended to a log. Its feed wakes the shard, which gives each sender a turn (shard.go,
// feed.go, turn.go). The scheduler names the first stream of the turn, and that stream sends (stream.go): it takes a
// packet number (ledger.go), takes credit, claims the bytes (content.go), and commits the record. Then the packet is
// built and sealed (packets.go, keys.go) and goes into the batch, which the shard flushes when it has served
// everybody.
//
// # One ACK
//
// quic-go calls Acked (hooks.go). The recovery reads the records that the ACK covers (recovery.go), tells the streams
// what has arrived and what was lost (streams.go, stream.go), and reports to the congestion controller (control.go).
// The counts of ECN marks are checked (ecn.go). If there is now something to send, the shard is woken. What happens to
// a stream that the forwarder has opened, before the relay opens it here, is kept until then (adoption.go). Peers that
// can are asked for fewer ACKs (ackfrequency.go).
//
// A packet with nothing but an ACK is processed on the goroutine that reads the socket ([Hooks.Take], reader.go), with
// and without a forwarder, unless quic-go has to see it. quic-go is told of it before it opens another packet.
//
// # Locks
//
// In this order:
//
//  1. Sender.mu guards a sender with all its parts, subscriptions, streams and datagrams. The parts have no locks;
//     their docs name exceptions. Functions on other types that expect the lock end in Locked.
//  2. shard.mu guards the run queue, the feeds and the list of senders.
//  3. feed.mu guards a feed's streams, Loop.mu the counters of closed senders. The locks of package track come last.
//
// A congestion controller, a drop policy and most methods of the forwarder are called with Sender.mu held. The
// forwarder must call abandon without a lock that these methods take. OnDone and OnBehind are called without locks, on
// a goroutine of the loop, and never from within a call of this package: a caller may hold locks that the callback
// needs.
//
// # What to replace
//
// [SenderConfig] takes a congestion controller (package congestion), and a [DropPolicy].
package media
