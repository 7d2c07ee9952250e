package media

import (
	"sluice/clock"
	"time"
)

const (
	initialRTT  = 333 * time.Millisecond // RFC 9002 §6.2.2
	granularity = time.Millisecond       // RFC 9002 §6.1.2
)

// rttEstimate estimates the round-trip time (RFC 9002 §5).
type rttEstimate struct {
	latest, min, smoothed, variance time.Duration // 0 before the first sample
	first                           clock.Time    // when the first sample was taken
}

// update takes a sample. ackDelay must be capped at the peer's max_ack_delay already.
func (r *rttEstimate) update(now clock.Time, sample, ackDelay time.Duration) {
	r.latest = sample
	if r.smoothed == 0 {
		r.min, r.smoothed, r.variance, r.first = sample, sample, sample/2, now
		return
	}
	r.min = min(r.min, sample)
	if sample >= r.min+ackDelay {
		sample -= ackDelay
	}
	r.variance = (3*r.variance + (r.smoothed - sample).Abs()) / 4
	r.smoothed = (7*r.smoothed + sample) / 8
}

// pto is the probe timeout without backoff (RFC 9002 §6.2.1).
func (r *rttEstimate) pto(maxAckDelay time.Duration) time.Duration {
	if r.smoothed == 0 {
		return 2*initialRTT + maxAckDelay
	}
	return r.smoothed + max(4*r.variance, granularity) + maxAckDelay
}

// lossDelay is the time threshold of loss detection (RFC 9002 §6.1.2).
func (r *rttEstimate) lossDelay() time.Duration {
	rtt := max(r.latest, r.smoothed)
	if rtt == 0 {
		rtt = initialRTT
	}
	return max(rtt*9/8, granularity)
}
