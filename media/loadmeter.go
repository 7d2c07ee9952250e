package media

import (
	"math"
	"time"

	"sluice/clock"
)

const (
	// meterPeriod is over which time rates are averaged.
	meterPeriod = 500 * time.Millisecond
	// meterGap is the time without a look after which there was nothing to look at.
	meterGap = 5 * policyInterval
	// minLooks is at how many looks data has to wait: for 200 ms, if none is late.
	minLooks = 20
	// leastShown is for how long data has to wait until what arrives says what the path carries; on paths with a longer
	// RTT, for as long as that: what arrives before was sent before.
	leastShown = 50 * time.Millisecond
	// settleRTTs is how long a window takes to grow again after the path was away, by doubling each round trip.
	settleRTTs = 8
	// busyRTTs is how many of the lowest RTTs pass without an ACK at most while a path is busy: its queue makes RTTs
	// longer, but empties all the time. SRTT is long for another reason as well: after a path was away, the first ACK
	// may be of a packet from before.
	busyRTTs = 4
	// ackDelay is more than most peers delay an ACK.
	ackDelay = 50 * time.Millisecond
	// burstPeriod is how long a burst is remembered, about: until the next key frame comes.
	burstPeriod = 4 * time.Second
)

// loadMeter is what Budget has learned of the path, and of the data that waits for it.
type loadMeter struct {
	at      clock.Time // of the last look
	looks   int        // at which data waited, one after the other
	arrived uint64     // what had arrived at the last look
	moved   clock.Time // when something arrived last
	settled clock.Time // when the path, which was away, carries its rate again, about
	began   clock.Time // when data began to wait, while nothing was dropped
	quiet   bool       // an ACK should have come
	away    bool       // and a second one

	carried rate         // of what arrives, while data waits
	growth  rate         // of what waits; less than 0: it becomes less
	waiting float64      // bytes
	burst   float64      // bytes of the two most important levels that waited, or came, at a time
	levels  recentLevels // at which data has waited
}

// look notes what there is to see. If nothing is remembered, levels that had data before nothing waited do not count:
// their subscriptions may have ended.
func (m *loadMeter) look(now clock.Time, l Load, remember bool) {
	waiting := 0.
	for _, b := range l.Levels {
		waiting += float64(b.Bytes)
	}
	// The forwarder changes the counters that Arrived comes from one after the other, so it may fall for a moment.
	arrived := max(l.Arrived, m.arrived)
	gap := now.Sub(m.at) > meterGap
	if arrived > m.arrived || gap || l.InFlight == 0 {
		m.moved = now
	}
	busy := busyRTTs * l.MinRTT
	quiet := now.Sub(m.moved) - min(l.SRTT+4*l.RTTVar, busy) - ackDelay
	m.quiet, m.away = quiet > 0, quiet > min(l.SRTT, busy)+ackDelay
	if m.away {
		m.settled = now.Add(settleRTTs * l.SRTT)
	}
	if waiting == 0 || gap || now <= m.settled || l.SRTT == 0 {
		m.carried, m.growth, m.looks = rate{}, rate{}, 0
	} else {
		m.carried.note(float64(arrived-m.arrived), now.Sub(m.at))
		m.growth.note(waiting-m.waiting, now.Sub(m.at))
	}
	if m.looks == 0 && !remember {
		m.levels, m.began = m.levels[:0], now
	}
	m.looks++
	m.at, m.arrived, m.waiting = now, arrived, waiting
	m.noteLevels(now, l.Levels)
}

// noteLevels notes which levels have data that waits.
func (m *loadMeter) noteLevels(now clock.Time, all []Backlog) {
	for _, b := range all {
		if b.Bytes > 0 {
			m.levels.note(now, b.Level)
		}
	}
	m.levels.forget(now)
	burst := 0.
	for _, b := range all {
		if b.Level <= m.level(1) {
			burst += float64(max(b.Bytes, b.Largest))
		}
	}
	m.burst = max(m.burst*(1-policyInterval.Seconds()/burstPeriod.Seconds()), burst)
}

// level returns the i-th level, or the last one if there are fewer.
func (m *loadMeter) level(i int) Level {
	if len(m.levels) == 0 {
		return LowestPriority
	}
	return m.levels[min(i, len(m.levels)-1)].Level
}

// pressed reports whether data has waited for long, while the process was running and the path was there. What has
// waited because they were not is no reason to drop anything.
func (m *loadMeter) pressed() bool {
	return m.looks >= minLooks && !m.quiet && m.at >= m.settled.Add(meterPeriod)
}

// shown returns the rate of what arrives while data waits, or 0 if that is not known yet.
func (m *loadMeter) shown(rtt time.Duration) float64 {
	if time.Duration(m.looks)*policyInterval < max(leastShown, rtt) {
		return 0
	}
	return m.carried.value()
}

// drains reports whether what waits becomes less, so that it will be gone within a time. At first it is enough that it
// becomes less: a window that was not used, or begins anew because the path was away, grows.
func (m *loadMeter) drains(within time.Duration) bool {
	growth := m.growth.value()
	if m.at < max(m.began, m.settled).Add(within) {
		return growth < 0
	}
	return m.waiting+growth*within.Seconds() < 0
}

// rate is a rate over about meterPeriod. Older values count less and less.
type rate struct{ sum, seconds float64 }

// note takes into account what has come in a time.
func (r *rate) note(n float64, took time.Duration) {
	old := math.Exp(-took.Seconds() / meterPeriod.Seconds())
	r.sum, r.seconds = r.sum*old+n, r.seconds*old+took.Seconds()
}

// value returns the rate by the second.
func (r *rate) value() float64 {
	if r.seconds == 0 {
		return 0
	}
	return r.sum / r.seconds
}
