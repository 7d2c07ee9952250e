package rendition

import (
	"math"
	"slices"
	"time"
)

const (
	meterStep   = 100 * time.Millisecond
	delayWindow = time.Second
	rateWindow  = 2 * time.Second
	basePeriod  = 30 * time.Second

	// In the beginning a path carries more than arrives: the sender's window grows, and packets lost when that is too
	// large hold back what comes after them.
	startTime = 3 * time.Second
	startRate = 1.5 // times the rate that arrives

	dropShare = 0.1 // of objects: if more are left out, the relay drops them

	burstSize = 20 << 10 // bytes of the smallest object whose arrival tells how fast the path is
	bursts    = 5

	// timelineBreak is a step between objects that no path makes: the publisher has started its times again.
	timelineBreak = 10 * time.Second
)

// Meter measures how the objects of a content arrive. Its memory does not grow.
type Meter struct {
	begun bool
	zero  time.Time     // from which arrivals count
	first time.Duration // how long the first object took to arrive, until then

	last  time.Time        // when the latest object came
	media time.Duration    // media time of the latest object
	step  time.Duration    // between the latest two
	base  [2]time.Duration // the least lag of this period, and of the last
	until time.Time        // when the period ends

	steps  [rateWindow / meterStep]slot
	bursts []float64 // the latest ones, in bits per second
}

// slot has the media that arrived in one step of time.
type slot struct {
	number int64
	bytes  int
	delay  time.Duration // the least one

	objects, skipped int
}

// Arrived counts an object: when it was complete, its media time, its size, and how long it took.
func (m *Meter) Arrived(now time.Time, media time.Duration, bytes int, took time.Duration) {
	lag := now.Sub(m.zero) - media
	if m.begun && (lag-m.base[0]).Abs() > timelineBreak && (media-m.media).Abs() > timelineBreak {
		*m = Meter{}
	}
	if !m.begun {
		*m = Meter{begun: true, zero: now, first: took, media: media, until: now.Add(basePeriod)}
		lag = -media
		m.base = [2]time.Duration{lag, lag}
	}
	if now.After(m.until) {
		m.base, m.until = [2]time.Duration{lag, m.base[0]}, now.Add(basePeriod)
	}
	m.base[0] = min(m.base[0], lag)
	if media > m.media {
		m.step, m.media = media-m.media, media
	}
	m.last = now
	delay := lag - m.least()
	s := m.slotOf(now)
	if number := m.number(now); s.number != number {
		*s = slot{number: number, delay: delay}
	}
	s.bytes += bytes
	s.objects++
	s.delay = min(s.delay, delay)
	if bytes >= burstSize {
		m.bursts = append(m.bursts, float64(bytes*8)/max(took, time.Millisecond).Seconds())
		m.bursts = m.bursts[max(len(m.bursts)-bursts, 0):]
	}
}

// Skipped counts objects that have not come in time, and are left out.
func (m *Meter) Skipped(now time.Time, objects int) {
	if !m.begun {
		return
	}
	s := m.slotOf(now)
	if number := m.number(now); s.number != number {
		*s = slot{number: number, delay: math.MaxInt64}
	}
	s.skipped += objects
}

// Last returns when the latest object came.
func (m *Meter) Last() time.Time { return m.last }

func (m *Meter) least() time.Duration { return min(m.base[0], m.base[1]) }

func (m *Meter) number(now time.Time) int64 { return int64(max(now.Sub(m.zero), 0)/meterStep) + 1 }

func (m *Meter) slotOf(now time.Time) *slot {
	return &m.steps[m.number(now)%int64(len(m.steps))]
}

// Delay returns by how much objects come later than the fastest ones: the least of the last second, since a loss delays
// only a few, or by how much the next one is overdue.
func (m *Meter) Delay(now time.Time) time.Duration {
	if !m.begun {
		return 0
	}
	overdue := now.Sub(m.zero) - m.least() - m.media - m.step
	least, found := time.Duration(0), false
	for _, s := range m.steps {
		if m.within(s, now, delayWindow) && s.objects > 0 && (!found || s.delay < least) {
			least, found = s.delay, true
		}
	}
	return max(least, overdue, 0)
}

// Dropping reports whether many objects of the last second were left out.
func (m *Meter) Dropping(now time.Time) bool {
	objects, skipped := 0, 0
	for _, s := range m.steps {
		if m.within(s, now, delayWindow) {
			objects, skipped = objects+s.objects, skipped+s.skipped
		}
	}
	return float64(skipped) > dropShare*float64(objects+skipped)
}

// Rate returns how many bits per second have arrived in the two seconds before the latest object. The part of the next
// one that has come is unknown, so the time since does not count, unless it is long. In the beginning it returns more.
func (m *Meter) Rate(now time.Time) float64 {
	times := 1.
	if now.Sub(m.zero) < startTime {
		times = startRate
	}
	if now.Sub(m.last) < delayWindow {
		now = m.last
	}
	sum := 0
	for _, s := range m.steps {
		if m.within(s, now, rateWindow) {
			sum += s.bytes
		}
	}
	return times * float64(sum*8) / max(min(now.Sub(m.zero)+m.first, rateWindow), meterStep).Seconds()
}

func (m *Meter) within(s slot, now time.Time, window time.Duration) bool {
	return s.number > 0 && s.number > m.number(now)-int64(window/meterStep)
}

// Burst returns the rate at which large objects arrive, which tells more than the rate of all if the path is not full.
func (m *Meter) Burst() float64 {
	if len(m.bursts) < bursts {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m.bursts))
	return sorted[bursts/2]
}
