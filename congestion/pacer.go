package congestion

import (
	"time"

	"sluice/clock"
)

// Pacer is a token bucket that spreads packets over the round trip (RFC 9002 §7.7). It lets a burst pass at once, so
// that a video frame on an idle path is not delayed. The burst is half a window, which the path has carried before,
// but at least the initial window. The zero value does not pace.
//
// The bucket is one word: the time at which it is full, if no more packets leave. Several senders may share that word:
// each takes tokens by a compare-and-swap, and nobody has to fill the bucket.
type Pacer struct {
	Cost  uint32 // nanoseconds in which tokens for 1024 bytes come; 0: packets are not paced
	Burst uint32 // microseconds in which the bucket fills
}

// FullAt is the time at which a bucket is full, a [clock.Time].
type FullAt interface {
	Load() uint64
	CompareAndSwap(old, x uint64) bool
}

// maxBurst is more than the largest frames of common video, and little enough for the buffers of access networks.
const maxBurst = 128 << 10

// pacerTick is how late timers may be: the bucket holds at least this much time's worth of tokens.
const pacerTick = 2 * time.Millisecond

// maxPacer is the largest value of Cost and Burst.
const maxPacer = 1<<32 - 1

// pacerAttempts is how often Spend and Refill try while others are faster.
const pacerAttempts = 4

// burst returns the size of the bucket in bytes.
func burst(window, mtu int, rate int64) float64 {
	b := min(max(window/2, initialWindow(mtu)), maxBurst)
	return max(float64(b), float64(rate)*pacerTick.Seconds())
}

// PacerOf returns the pacer of a controller on a path with that smoothed RTT, for packets of at most mtu bytes.
func PacerOf(c Controller, srtt time.Duration, mtu int) Pacer {
	p := NewPacer(c.Rate(srtt), c.Window(), mtu)
	if s, ok := c.(Scalable); ok && s.Smooth() {
		p.Burst = min(p.Burst, max(uint32(pacerTick.Microseconds()), uint32(uint64(2*mtu)*uint64(p.Cost)/1024/1000)))
	}
	return p
}

// NewPacer returns the pacer for a controller's rate and window, and packets of at most mtu bytes.
func NewPacer(rate int64, window, mtu int) Pacer {
	if rate <= 0 {
		return Pacer{}
	}
	full := burst(window, mtu, rate) / float64(rate)
	return Pacer{
		Cost:  uint32(min(max(1024*1e9/rate, 1), maxPacer)),
		Burst: uint32(min(full*1e6, maxPacer)),
	}
}

// Refill keeps the tokens that are in the bucket of p for the pacer that comes after it. A new bucket is full.
func (p Pacer) Refill(at FullAt, now clock.Time, next Pacer) {
	if p == next || next.Cost == 0 {
		return
	}
	for range pacerAttempts {
		old := at.Load()
		full := next.burst()
		if p.Cost > 0 {
			full = min(p.tokens(clock.Time(old), now), full)
		}
		missing := time.Duration((next.burst() - full) * float64(next.Cost) / 1024)
		if at.CompareAndSwap(old, uint64(now.Add(missing))) {
			return
		}
	}
}

// burst returns the size of the bucket in bytes.
func (p Pacer) burst() float64 { return float64(p.Burst) * 1000 / float64(p.Cost) * 1024 }

// tokens returns how many bytes may leave now.
func (p Pacer) tokens(full, now clock.Time) float64 {
	return p.burst() - float64(max(full.Sub(now), 0))/float64(p.Cost)*1024
}

// Ready reports whether a packet may leave. One token is enough: the packet that takes the last token leaves whole.
func (p Pacer) Ready(at FullAt, now clock.Time) bool {
	return p.Cost == 0 || int64(at.Load()) < int64(now)+int64(p.Burst)*1000
}

// Spend takes tokens for a packet of n bytes. Packets that need none, such as probes, may take more than there are, up
// to as many as the bucket holds. If others are faster for a few times, the packet is free.
func (p Pacer) Spend(at FullAt, now clock.Time, n int) {
	if p.Cost == 0 {
		return
	}
	latest := uint64(now) + uint64(p.Burst)*2000
	for range pacerAttempts {
		old := at.Load()
		if at.CompareAndSwap(old, min(max(old, uint64(now)), latest)+uint64(n)*uint64(p.Cost)>>10) {
			return
		}
	}
}

// Next returns when there will be tokens for a millisecond's worth of packets. On fast paths that saves a timer for
// each packet.
func (p Pacer) Next(at FullAt, mtu int) clock.Time {
	want := max(time.Millisecond, time.Duration(uint64(mtu)*uint64(p.Cost)>>10))
	return clock.Time(at.Load()).Add(want - time.Duration(p.Burst)*time.Microsecond)
}
