package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ms = int64(time.Millisecond)

type arrival struct {
	id        int
	at        int64
	lane      uint16
	reordered bool
}

type departure struct {
	id    int
	leave int64
}

// play lets frames arrive and returns when each leaves, in order.
func play(t require.TestingT, d *delayLine, arrivals []arrival) (left []departure) {
	depart := func(until int64) {
		for f := d.due(until); f != nil; f = d.due(until) {
			left = append(left, departure{f.start, f.leave})
		}
	}
	for _, a := range arrivals {
		depart(a.at)
		require.True(t, d.arrive(&frame{start: a.id}, a.lane, a.at, a.reordered))
	}
	depart(1 << 62)
	_, waiting := d.next()
	require.False(t, waiting)
	return left
}

func TestDelayLine(t *testing.T) {
	for _, c := range []struct {
		name     string
		arrivals []arrival
		want     []departure
	}{
		{"in order", []arrival{{1, 0, 7, false}, {2, 0, 7, false}, {3, 5 * ms, 7, false}},
			[]departure{{1, 20 * ms}, {2, 20 * ms}, {3, 25 * ms}}},
		{"lanes have their own delay", []arrival{{1, 0, 7, false}, {2, 1 * ms, 8, false}},
			[]departure{{2, 2 * ms}, {1, 20 * ms}}},
		{"two packets overtake", []arrival{{1, 0, 7, true}, {2, 1 * ms, 7, false}, {3, 2 * ms, 7, false},
			{4, 2 * ms, 7, false}},
			[]departure{{2, 21 * ms}, {3, 22 * ms}, {1, 22 * ms}, {4, 22 * ms}}},
		{"packets of another lane do not overtake",
			[]arrival{{1, 0, 7, true}, {2, 1 * ms, 8, false}, {3, 1 * ms, 8, false}},
			[]departure{{2, 2 * ms}, {3, 2 * ms}, {1, 30 * ms}}},
		{"no packet overtakes the last one", []arrival{{1, 0, 7, false}, {2, 1 * ms, 7, true}},
			[]departure{{1, 20 * ms}, {2, 31 * ms}}},
		{"reordered packets do not overtake each other",
			[]arrival{{1, 0, 7, true}, {2, 0, 7, true}, {3, 0, 7, false}, {4, 0, 7, false}},
			[]departure{{3, 20 * ms}, {4, 20 * ms}, {1, 20 * ms}, {2, 20 * ms}}},
		{"a packet that left after its hold is not counted",
			[]arrival{{1, 0, 7, true}, {2, 40 * ms, 7, false}, {3, 40 * ms, 7, false}},
			[]departure{{1, 30 * ms}, {2, 60 * ms}, {3, 60 * ms}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDelayLine()
			d.configure(7, 20*time.Millisecond, 2, 10*time.Millisecond)
			d.configure(8, time.Millisecond, 1, 0)
			require.Equal(t, c.want, play(t, d, c.arrivals))
		})
	}
}

func TestDelayLineKeepsOrderWhenDelayShrinks(t *testing.T) {
	d := newDelayLine()
	d.configure(7, 20*time.Millisecond, 1, 0)
	require.True(t, d.arrive(&frame{start: 1}, 7, 0, false))
	d.configure(7, time.Millisecond, 1, 0)
	require.Equal(t, []departure{{1, 20 * ms}, {2, 20 * ms}, {3, 31 * ms}},
		play(t, d, []arrival{{2, 1 * ms, 7, false}, {3, 30 * ms, 7, false}}))
}

func TestDelayLineRefusesUnknownLane(t *testing.T) {
	require.False(t, newDelayLine().arrive(new(frame), 7, 0, false))
}

const hold = 10 * time.Millisecond

// Each packet that arrives leaves once, not before its delay, at most the hold after it, and in order unless it was
// reordered.
func TestDelayLineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDelayLine()
		delay := rapid.Int64Range(0, 30*ms).Draw(t, "delay")
		d.configure(7, time.Duration(delay), rapid.IntRange(1, 64).Draw(t, "gap"), hold)
		var arrivals []arrival
		for i, pause := range rapid.SliceOf(rapid.Int64Range(0, 5*ms)).Draw(t, "pauses") {
			at := pause
			if i > 0 {
				at += arrivals[i-1].at
			}
			arrivals = append(arrivals, arrival{i, at, 7, rapid.Bool().Draw(t, "reordered")})
		}
		left := play(t, d, arrivals)
		require.Len(t, left, len(arrivals))
		last := -1
		for i, l := range left {
			a := arrivals[l.id]
			require.GreaterOrEqual(t, l.leave, a.at+delay)
			require.LessOrEqual(t, l.leave, a.at+delay+int64(hold))
			require.True(t, i == 0 || left[i-1].leave <= l.leave)
			if !a.reordered {
				require.Greater(t, l.id, last)
				last = l.id
			}
		}
	})
}
