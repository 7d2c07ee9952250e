package congestion

import (
	"time"

	"sluice/clock"
)

const (
	initialRTT  = 333 * time.Millisecond // RFC 9002 §6.2.2
	granularity = time.Millisecond       // RFC 9002 §6.1.2
)

// RTT estimates the round-trip time (RFC 9002 §5). The zero value has no sample.
type RTT struct {
	Latest, Min, Smoothed, Variance time.Duration // 0 before the first sample
	First                           clock.Time    // when the first sample was taken

	longest maxFilter // of the samples in periods of longestPeriod, without ACK delay
	period  clock.Time
}

// longestPeriod is for how long the longest sample counts at least. Twice that is the most.
const longestPeriod = 2 * time.Second

// Longest returns the longest sample of the last two to four seconds, without ACK delay.
func (r *RTT) Longest() time.Duration { return time.Duration(r.longest.value()) }

// Update takes a sample. ackDelay is at most the peer's max_ack_delay.
func (r *RTT) Update(now clock.Time, sample, ackDelay time.Duration) {
	r.Latest = sample
	if r.Smoothed == 0 {
		r.Min, r.Smoothed, r.Variance, r.First = sample, sample, sample/2, now
		r.note(now, sample)
		return
	}
	r.Min = min(r.Min, sample)
	if sample >= r.Min+ackDelay {
		sample -= ackDelay
	}
	r.note(now, sample)
	r.Variance = (3*r.Variance + (r.Smoothed - sample).Abs()) / 4
	r.Smoothed = (7*r.Smoothed + sample) / 8
}

// note takes a sample for Longest.
func (r *RTT) note(now clock.Time, sample time.Duration) {
	if now.Sub(r.period) >= longestPeriod {
		r.longest.next()
		r.period = now
	}
	r.longest.add(float64(sample))
}

// PTO returns the probe timeout without backoff (RFC 9002 §6.2.1).
func (r *RTT) PTO(maxAckDelay time.Duration) time.Duration {
	if r.Smoothed == 0 {
		return 2*initialRTT + maxAckDelay
	}
	return r.Smoothed + max(4*r.Variance, granularity) + maxAckDelay
}

// LossDelay returns the time threshold of loss detection (RFC 9002 §6.1.2).
func (r *RTT) LossDelay() time.Duration {
	rtt := max(r.Latest, r.Smoothed)
	if rtt == 0 {
		rtt = initialRTT
	}
	return max(rtt*9/8, granularity)
}
