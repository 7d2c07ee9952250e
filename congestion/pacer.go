package congestion

import (
	"time"

	"sluice/clock"
)

// Pacer is a token bucket that spreads packets over the round trip (RFC 9002 §7.7). It lets a burst pass at once, so
// that a video frame on an idle path is not delayed. The burst is half a window, which the path has carried before,
// but at least the initial window. The zero value is a full bucket.
type Pacer struct {
	tokens  float64 // bytes that may leave now; negative after a probe
	updated clock.Time
}

// maxBurst is more than the largest frames of common video, and little enough for the buffers of access networks.
const maxBurst = 128 << 10

// pacerTick is how late timers may be: the bucket holds at least this much time's worth of tokens.
const pacerTick = 2 * time.Millisecond

// burst returns the size of the bucket in bytes.
func burst(window, mtu int, rate int64) float64 {
	b := min(max(window/2, initialWindow(mtu)), maxBurst)
	return max(float64(b), float64(rate)*pacerTick.Seconds())
}

// Refill brings the bucket up to date, for a controller's rate and window, and packets of at most mtu bytes.
func (p *Pacer) Refill(now clock.Time, rate int64, window, mtu int) {
	full := burst(window, mtu, rate)
	if p.updated == 0 {
		p.tokens = full
	} else {
		p.tokens = min(p.tokens+float64(rate)*now.Sub(p.updated).Seconds(), full)
	}
	p.updated = now
}

// Ready reports whether a packet may leave. One token is enough: the packet that takes the last token leaves whole.
func (p *Pacer) Ready() bool { return p.tokens > 0 }

// Spend takes tokens for a packet of that many bytes.
func (p *Pacer) Spend(bytes int) { p.tokens -= float64(bytes) }

// Next returns when there will be tokens for a millisecond's worth of packets. On fast paths that saves a timer for
// each packet.
func (p *Pacer) Next(rate int64, mtu int) clock.Time {
	want := max(float64(rate)*time.Millisecond.Seconds(), float64(mtu))
	wait := (want - p.tokens) / float64(rate)
	return p.updated.Add(time.Duration(wait * float64(time.Second)))
}
