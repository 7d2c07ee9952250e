package claim

import (
	"time"

	"sluice/clock"
)

// Verdict is whether a packet may go now, and if not, why.
type Verdict uint8

// Verdicts. The kernel's programs decide by the same rule (fastpath/bpf/policy/policy.h), and a test compares them.
const (
	Admitted        Verdict = iota
	BeyondThreshold         // the level is above the threshold
	BucketLow               // the bytes in the bucket are kept for more important levels
	Declined                // an operator's rule has another reason
	TooLarge                // for the path
	WindowFull              // the congestion window has no room
	Paced                   // its time has not come, or the media sender waits for its own
)

// Rule takes the decisions of [ConnState.Admit] that are a matter of opinion: all but TooLarge, WindowFull and Paced. A
// rule changes nothing. It may be asked on any goroutine.
type Rule interface {
	Admit(*ConnState, Admission) Verdict
}

// Admission describes to the rule a packet that is about to go, or with Size 0 an object that is about to begin. Other
// rules get the first packet of that object.
type Admission struct {
	Level uint32
	Size  int // of the QUIC packet in bytes
	Now   clock.Time

	// Only for other rules.
	Group uint64
	Age   time.Duration // in which the object could have been sent: since it was received, or its stream was opened
}

// The bucket has as many bytes as the path is to carry, and every packet takes its own from it. How full it has to be
// depends on the packet's class. There are five, from the most important one on: class 0 goes although the bucket is
// empty, class 1 if it is not empty, and the others if it is filled by more than a quarter, a half, and three quarters.
// So each class leaves bytes to the more important classes, and which classes go depends on how much each brings.
//
// The bucket is one word: the time at which it is full, if nothing more is taken. So both senders take from it by one
// compare-and-swap, and nobody has to fill it.

// Bucket is a bucket that [ConnState.SetBucket] makes both senders obey.
type Bucket struct {
	Rate  int64 // by which it fills, in bytes a second; 0: there is no bucket
	Burst int64 // bytes that it holds
	// Bounds are the highest levels of the classes 0 to 3, ascending. A class whose bound is not above the bound before
	// has no levels.
	Bounds [4]uint16
}

// maxBucket is the largest value of BucketCost and BucketBurst: a KiB in 4 s, and a bucket that fills in 4,000 s.
const maxBucket = 1<<32 - 1

// Take takes the bytes of a packet from a bucket that is full at some time, takes cost nanoseconds to fill by 1024
// bytes, and burst microseconds to get full. If cost is 0, there is none. The debt of class 0 is at most as much as the
// bucket holds: else the others would wait for all of it, although the path got better since. An attempt that fails is
// repeated a few times only, as in the kernel: then the packet is free.
func Take(fullAt *Word, cost, burst uint32, n int, now clock.Time) {
	if cost == 0 {
		return
	}
	latest := uint64(now) + uint64(burst)*2000
	for range 4 {
		at := fullAt.Load()
		if fullAt.CompareAndSwap(at, min(max(at, uint64(now)), latest)+uint64(n)*uint64(cost)>>10) {
			return
		}
	}
}
