package alert

import (
	"math"
	"time"
)

const (
	// memory is how long a value counts for the usual one: long enough for a day's evening, and so short that a path
	// that has changed for good is usual within a day or so.
	memory = 24 * time.Hour
	// learning is how long a signal has to be known before it can raise an alert, as a multiple of rule.lasting.
	learning = 12
	// leastRise is the least rise that is high: nobody notices less.
	leastRise = time.Millisecond
)

// rule says what raises alerts.
type rule struct {
	factor  float64       // how many times its usual value a signal is when it is high
	lasting time.Duration // how long it has to be high
}

// signal is a quantile of the RTTs of an aggregate, over time. Its usual value is the geometric mean of the intervals
// that were measured, as long as there is no memory full of them, and then their moving average.
//
// high is a cumulative sum (Page's CUSUM): an interval with a value of factor times the usual one or more adds its
// length, one with a usual value subtracts its length, and one in between a part of it. So a signal raises an alert
// when it was high for the time that the rule names, and some lower intervals do not start it afresh. A signal that is
// always below the root of the factor never raises one.
type signal struct {
	usual  float64       // natural logarithm, of ns
	known  time.Duration // how long was measured, up to memory
	high   time.Duration // 0 to rule.lasting
	last   time.Duration // value
	raised time.Time     // when an alert was raised; zero: none is
}

// observe takes the value of an interval. It reports whether an alert is to be raised or to end.
func (s *signal) observe(value, length time.Duration, r rule) (turns bool) {
	s.last = value
	if s.known >= r.learning() {
		part := time.Duration(float64(length) * r.score(value, s.usualValue()))
		s.high = min(max(s.high+part, 0), r.lasting)
	}
	s.learn(value, length)
	if s.raised.IsZero() {
		return s.high == r.lasting
	}
	return s.high == 0
}

// learn takes the value of an interval as a usual one.
func (s *signal) learn(value, length time.Duration) {
	s.known = min(s.known+length, memory)
	s.usual += (math.Log(float64(max(value, 1))) - s.usual) * min(1, float64(length)/float64(max(s.known, 1)))
}

func (s *signal) usualValue() time.Duration { return time.Duration(math.Exp(s.usual)) }

// learning returns how long a signal has to be known.
func (r rule) learning() time.Duration { return min(learning*r.lasting, memory) }

// score returns how much a value speaks for a rise, from -1 to 1.
func (r rule) score(value, usual time.Duration) float64 {
	if value-usual < leastRise {
		return -1
	}
	rise := math.Log(float64(value)/float64(max(usual, 1))) / math.Log(r.factor)
	return min(max(2*rise-1, -1), 1)
}
