package media

import (
	"time"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
)

// DropPolicy decides which data a congested subscriber does not get. A policy serves one connection and is called by
// one goroutine at a time, with the sender's lock held: it must neither block nor call the sender. All that it knows
// are its arguments, so it decides the same in a simulation.
type DropPolicy interface {
	// Decide returns what may be sent from now on, by the media sender and by the forwarder. It is called every 10 ms
	// while data waits, and while the limits hold something back. The slices of l are valid during the call only.
	Decide(now clock.Time, l Load) Limits
}

// Load is what a [DropPolicy] knows.
type Load struct {
	congestion.State
	Levels []Backlog // ascending
	// Declined is how many streams and datagrams were not sent, or not to their end, because of the limits, since the
	// connection began. Groups that ended because of GroupDeadline are not among them.
	Declined uint64
}

// Backlog is what waits at one level that has streams.
type Backlog struct {
	Level   Level
	Streams int
	Bytes   int64 // that could be sent if the path and the peer allowed it
	Largest int64 // bytes of the largest object of those that came last on each stream, also if it was sent
	// Age is that of the oldest of these bytes: since its object was received, or its stream was opened if that was
	// later.
	Age time.Duration
}

// Limits are what a [DropPolicy] allows. Make them with [UpTo].
type Limits struct {
	// Threshold is the highest level (the lowest priority) that is sent. Streams beyond it are not opened, and reset
	// with DELIVERY_TIMEOUT if they are open; datagrams beyond it are dropped.
	Threshold Level
	// Bucket holds the bytes that the path is to carry. Objects take them by the class of their level. An object that
	// comes while its class gets none is not begun: a datagram is dropped, and a stream ends before it with
	// DELIVERY_TIMEOUT, because its subgroup must have no hole. An object that was begun goes whole.
	Bucket claim.Bucket
	// Deadline is how long an object may wait, if it is of the bucket's class 4. A stream with one that waits
	// longer ends before it with DELIVERY_TIMEOUT. 0, and without a bucket: for any time.
	Deadline time.Duration
	// GroupDeadline ends groups that are late: when data of a stream waits for longer, between two objects, while a
	// newer group of its subscription waits, it ends with DELIVERY_TIMEOUT. 0: never. A subscriber that reports that it
	// has more to show may wait for longer: see [Subscription.SetPatience].
	GroupDeadline time.Duration
}

// UpTo returns limits that let everything up to a level pass.
func UpTo(threshold Level) Limits { return Limits{Threshold: threshold} }

// hold reports whether the limits hold anything back at any time.
func (l *Limits) hold() bool { return l.Threshold != LowestPriority || l.Bucket.Rate != 0 }

// endStreams reports whether the limits may end streams up to the threshold.
func (l *Limits) endStreams() bool {
	return l.Bucket.Rate != 0 || l.GroupDeadline != 0
}
