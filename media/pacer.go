package media

import (
	"sluice/clock"
	"time"
)

// pacer is a token bucket that spreads packets over the round trip (RFC 9002 §7.7). It lets a burst pass at once, so that a video frame
// on an idle path is not delayed: what the path has shown to take, half a window, but no less than the initial window.
type pacer struct {
	tokens  float64 // bytes that may leave now; negative after a probe
	updated clock.Time
}

// maxBurst is more than the largest frames of common video, and little enough for the buffers of access networks.
const maxBurst = 128 << 10

// pacerTick is how long timers may be late: within it the bucket must not overflow.
const pacerTick = 2 * time.Millisecond

func burst(window, mtu int, rate int64) float64 {
	b := min(max(window/2, initialWindow(mtu)), maxBurst)
	return max(float64(b), float64(rate)*pacerTick.Seconds())
}

// refill brings the bucket up to date.
func (p *pacer) refill(now clock.Time, rate int64, burst float64) {
	if p.updated == 0 {
		p.tokens = burst
	} else {
		p.tokens = min(p.tokens+float64(rate)*now.Sub(p.updated).Seconds(), burst)
	}
	p.updated = now
}

// ready says if a packet may leave. One is enough: the packet after the last token leaves whole.
func (p *pacer) ready() bool { return p.tokens > 0 }

func (p *pacer) spend(bytes int) { p.tokens -= float64(bytes) }

// next returns when there will be tokens for about a millisecond's worth of packets, so that fast paths do not need a timer each packet.
func (p *pacer) next(rate int64, mtu int) clock.Time {
	want := max(float64(rate)*time.Millisecond.Seconds(), float64(mtu))
	wait := (want - p.tokens) / float64(rate)
	return p.updated.Add(time.Duration(wait * float64(time.Second)))
}
