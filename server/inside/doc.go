// Package inside shows a relay at work: snapshots of its sessions and tracks, of the packets that its two senders send
// and the kernel declines, of the delay that they add, and of the cluster.
//
// A [Stream] serves them over HTTP as server-sent events, one each second. The events are described where their types
// are, in snapshot.go. A [Guard] decides who may look.
//
// Nothing happens while nobody looks: the goroutine that takes snapshots exists while there are watchers. A snapshot is
// taken once for all of them. It is bounded, whatever peers do: it lists the tracks with the most subscribers, and the
// oldest subscribers of one, and sums up the others.
//
// Locks: Stream.mu guards the watchers. It is not held while a snapshot is taken.
package inside
