package claim

import "sluice/clock"

// Verdict is whether a packet may go now, and if not, why.
type Verdict uint8

// Verdicts. The kernel's programs decide by the same rule (fastpath/bpf/policy/policy.h), and a test compares them.
const (
	Admitted        Verdict = iota
	BeyondThreshold         // the level is above the threshold
	BucketLow               // the bytes in the bucket are kept for more important levels
	TooLarge                // for the path
	WindowFull              // the congestion window has no room
)

// Admission is what the rule knows about a packet that is about to go, or with Size 0 about a stream that is about to
// be opened.
type Admission struct {
	Level uint32
	Size  int // of the QUIC packet in bytes
	Now   clock.Time
}

// Admit decides whether a packet may go now. It changes nothing.
func (s *ConnState) Admit(a Admission) Verdict {
	switch {
	case a.Level > s.Threshold.Load():
		return BeyondThreshold
	case !s.Affords(a.Level, a.Now):
		return BucketLow
	case a.Size == 0:
		return Admitted
	case a.Size > int(s.MTU.Load()):
		return TooLarge
	case s.InFlight.Load()+uint64(a.Size) > s.Window.Load():
		return WindowFull
	}
	return Admitted
}

// The bucket has as many bytes as the path is to carry, and every packet takes its own from it. How full it has to be
// for a packet depends on the packet's class, of which there are five, from the most important one on: class 0 goes
// although the bucket is empty, class 1 if it is not empty, and the others if it is filled by more than a quarter, a
// half, and three quarters. So each class leaves bytes to those that are more important, and which of them goes depends
// on what they bring.
//
// It is one word: the time at which the bucket is full, if nothing more is taken. So both senders take from it by one
// compare-and-swap, and nobody has to fill it.

// Bucket is a bucket that [ConnState.SetBucket] makes both senders obey.
type Bucket struct {
	Rate  int64 // by which it fills, in bytes a second; 0: there is no bucket
	Burst int64 // bytes that it holds
	// Bounds are the highest levels of the classes 0 to 3, ascending. A class whose bound is not above the one before
	// has no levels.
	Bounds [4]uint16
}

// SetBucket changes the bucket. What was taken from it stays taken.
func (s *ConnState) SetBucket(b Bucket) {
	if b.Rate <= 0 {
		s.BucketCost.Store(0)
		return
	}
	var bounds uint64
	for i, level := range b.Bounds {
		bounds |= uint64(level) << (16 * i)
	}
	s.Bounds.Store(bounds)
	s.BucketBurst.Store(uint32(min(b.Burst*1e6/b.Rate, maxBucket)))
	s.BucketCost.Store(uint32(min(max(1024*1e9/b.Rate, 1), maxBucket)))
}

// maxBucket is the largest value of BucketCost and BucketBurst: a KiB in 4 s, and a bucket that fills in 4,000 s.
const maxBucket = 1<<32 - 1

// FillBucket makes the bucket filled by so many parts of 256.
func (s *ConnState) FillBucket(now clock.Time, parts int) {
	burst := uint64(s.BucketBurst.Load()) * 1000
	s.BucketAt.Store(uint64(now) + burst*uint64(256-parts)/256)
}

// Class returns the class of a level.
func (s *ConnState) Class(level uint32) (class int) {
	for bounds := s.Bounds.Load(); class < 4 && level > uint32(bounds&0xffff); class++ {
		bounds >>= 16
	}
	return class
}

// Affords reports whether the bucket has bytes for a level. One byte is enough, so that a packet goes whole.
func (s *ConnState) Affords(level uint32, now clock.Time) bool {
	if s.BucketCost.Load() == 0 {
		return true
	}
	class := s.Class(level)
	if class == 0 {
		return true
	}
	burst := uint64(s.BucketBurst.Load()) * 1000
	return s.BucketAt.Load() < uint64(now)+burst-burst*uint64(class-1)/4
}

// Charge takes the bytes of a packet from the bucket. The debt of class 0 is at most as much as the bucket holds: else
// the others would wait for all of it, although the path got better since. An attempt that fails is repeated a few
// times only, as in the kernel: then the packet is free.
func (s *ConnState) Charge(n int, now clock.Time) {
	cost := uint64(s.BucketCost.Load())
	if cost == 0 {
		return
	}
	latest := uint64(now) + uint64(s.BucketBurst.Load())*2000
	for range 4 {
		at := s.BucketAt.Load()
		if s.BucketAt.CompareAndSwap(at, min(max(at, uint64(now)), latest)+uint64(n)*cost>>10) {
			return
		}
	}
}
