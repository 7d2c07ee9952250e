package alert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

var byFive = rule{factor: 2, lasting: 5 * time.Minute}

// known returns a signal that was 10 ms for two hours.
func known(t *testing.T, r rule) *signal {
	s := new(signal)
	for range 120 {
		require.False(t, s.observe(10*ms, time.Minute, r))
	}
	return s
}

// turnsAfter returns after how many minutes with these values, one after the other and again, a signal turns; 0 if it
// does not.
func turnsAfter(s *signal, r rule, most int, values ...time.Duration) int {
	for n := range most {
		if s.observe(values[n%len(values)], time.Minute, r) {
			return n + 1
		}
	}
	return 0
}

func TestRises(t *testing.T) {
	for name, c := range map[string]struct {
		values []time.Duration
		want   int
	}{
		"by the factor":                {[]time.Duration{20 * ms}, 6}, // the usual value has risen by a little, too
		"by much more":                 {[]time.Duration{900 * ms}, 5},
		"with an interval that is not": {[]time.Duration{30 * ms, 30 * ms, 30 * ms, 10 * ms}, 7},
		"by less":                      {[]time.Duration{18 * ms}, 8},
		"too little":                   {[]time.Duration{14 * ms}, 0},
		"for too short":                {append(repeat(40*ms, 4), repeat(10*ms, 4)...), 0},
		"once":                         {append([]time.Duration{9 * time.Second}, repeat(10*ms, 99)...), 0},
		"not":                          {[]time.Duration{10 * ms}, 0},
		"down":                         {[]time.Duration{ms}, 0},
	} {
		require.Equal(t, c.want, turnsAfter(known(t, byFive), byFive, 60, c.values...), name)
	}
}

func repeat(v time.Duration, n int) (all []time.Duration) {
	for range n {
		all = append(all, v)
	}
	return all
}

// TestEnds lets a signal be usual again: that takes as long as the rise did.
func TestEnds(t *testing.T) {
	s := known(t, byFive)
	require.NotZero(t, turnsAfter(s, byFive, 60, 40*ms))
	s.raised = time.Unix(1, 0)
	require.Zero(t, turnsAfter(s, byFive, 60, 40*ms))
	require.Zero(t, turnsAfter(s, byFive, 12, 10*ms, 40*ms))
	require.Equal(t, 5, turnsAfter(s, byFive, 60, 10*ms))
}

// TestNewUsual lets a path change for good.
func TestNewUsual(t *testing.T) {
	s := known(t, byFive)
	require.NotZero(t, turnsAfter(s, byFive, 60, 40*ms))
	s.raised = time.Unix(1, 0)
	n := turnsAfter(s, byFive, 3*24*60, 40*ms)
	require.Greater(t, n, 60)
	require.Less(t, n, 24*60)
}

// TestLearning begins with a rise: the usual value is not known yet.
func TestLearning(t *testing.T) {
	s := new(signal)
	require.False(t, s.observe(10*ms, time.Minute, byFive))
	require.Zero(t, turnsAfter(s, byFive, 58, 90*ms))
	short := rule{factor: 2, lasting: 3 * time.Hour}
	s = new(signal)
	require.Zero(t, turnsAfter(s, short, 24*60, 10*ms), "no more than a day is learned")
	require.NotZero(t, turnsAfter(s, short, 24*60, 90*ms))
}

// TestShortRTTs lets an RTT of a local network grow by less than anybody notices.
func TestShortRTTs(t *testing.T) {
	s := new(signal)
	require.Zero(t, turnsAfter(s, byFive, 120, 50*time.Microsecond))
	require.Zero(t, turnsAfter(s, byFive, 60, ms))
	require.NotZero(t, turnsAfter(s, byFive, 60, 2*ms))
	require.Zero(t, turnsAfter(new(signal), byFive, 200, 0), "no logarithm of 0")
}
