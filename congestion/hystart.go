package congestion

import (
	"time"

	"sluice/clock"
)

// Constants of RFC 9406 §4.3.
const (
	hystartMinRTTThresh = 4 * time.Millisecond
	hystartMaxRTTThresh = 16 * time.Millisecond
	hystartMinDivisor   = 8
	hystartSamples      = 8
	cssGrowthDivisor    = 4
	cssRounds           = 5
)

// hystart leaves slow start when the RTT begins to grow, before the queue of the bottleneck overflows (HyStart++, RFC
// 9406). A round ends when a packet that was sent after its begin is acknowledged.
type hystart struct {
	begin     clock.Time    // of the round
	lastMin   time.Duration // lowest RTT of the previous round; 0: unknown
	min       time.Duration // lowest RTT of this round
	samples   int
	baseline  time.Duration // lowest RTT when conservative slow start began; 0: not begun
	cssRounds int
}

// growth returns by how many bytes the window may grow for an ACK, and whether slow start is over.
func (h *hystart) growth(e AckEvent) (bytes int, over bool) {
	if e.Sent >= h.begin {
		h.nextRound(e.Now)
	}
	if h.samples++; h.min == 0 || e.LatestRTT < h.min {
		h.min = e.LatestRTT
	}
	switch {
	case h.samples < hystartSamples || h.lastMin == 0:
	case h.baseline == 0 && h.min >= h.lastMin+h.threshold():
		h.baseline, h.cssRounds = h.min, 0
	case h.baseline > 0 && h.min < h.baseline:
		h.baseline = 0 // the RTT grew for a moment only
	}
	if h.baseline == 0 {
		return e.Bytes, false
	}
	return e.Bytes / cssGrowthDivisor, h.cssRounds >= cssRounds
}

func (h *hystart) nextRound(now clock.Time) {
	if h.baseline > 0 {
		h.cssRounds++
	}
	h.begin, h.lastMin, h.min, h.samples = now, h.min, 0, 0
}

func (h *hystart) threshold() time.Duration {
	return min(max(h.lastMin/hystartMinDivisor, hystartMinRTTThresh), hystartMaxRTTThresh)
}
