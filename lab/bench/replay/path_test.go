package replay

import (
	"math/rand/v2"
	"testing"
	"time"

	"sluice/lab/bench/pathprofile"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

func profile(t testing.TB, name string) pathprofile.Profile {
	p, ok := pathprofile.Find(name)
	require.True(t, ok)
	return p
}

func newTestPath(changes ...Change) *path {
	return &path{changes: changes, begin: begin, rng: rand.New(rand.NewPCG(1, 1))}
}

func at(d time.Duration) clock.Time { return begin.Add(d) }

// TestPathFinish has a packet of 1,000 bytes on paths whose rate changes meanwhile.
func TestPathFinish(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, c := range map[string]struct {
		changes []Change
		from    time.Duration
		want    clock.Time
	}{
		"one rate": {[]Change{{Rate: 8000}}, 0, at(time.Second)},
		"faster":   {[]Change{{Rate: 4000}, {At: second, Rate: 8000}}, 0, at(1500 * time.Millisecond)},
		"an outage": {
			[]Change{{Rate: 4000}, {At: second}, {At: 3 * second, Rate: 4000}}, 0, at(4 * time.Second),
		},
		"in an outage": {
			[]Change{{Rate: 1}, {At: second}, {At: 3 * second, Rate: 8000}}, 2 * time.Second, at(4 * time.Second),
		},
		"an outage for all": {[]Change{{Rate: 4000}, {At: second}}, 0, clock.Never},
	} {
		require.Equal(t, c.want, newTestPath(c.changes...).finish(at(c.from), 1000), name)
	}
}

func TestPathQueue(t *testing.T) {
	t.Parallel()
	p := newTestPath(Change{Rate: 8 * 1000, Queue: 2500, RTT: 100 * time.Millisecond})
	const n = 1000 - overhead
	for i := range 2 {
		leaves, ok := p.send(begin, n)
		require.True(t, ok)
		require.Equal(t, at(time.Duration(i+1)*time.Second), leaves)
	}
	_, ok := p.send(begin, n)
	require.False(t, ok, "the queue is full")
	p.left(n)
	leaves, ok := p.send(at(time.Second), n)
	require.True(t, ok)
	require.Equal(t, at(3*time.Second), leaves)
	require.Equal(t, 1, p.lost)
	require.Equal(t, 50*time.Millisecond, p.delay(begin))
}

func TestPathLoss(t *testing.T) {
	t.Parallel()
	p := newTestPath(Change{Rate: 1e9, Queue: 1 << 30, Loss: .01})
	for range 10_000 {
		p.send(begin, 100)
	}
	require.InDelta(t, 100, p.lost, 40)
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	var s intervals
	for _, v := range []interval{{5, 7}, {0, 2}, {9, 12}, {2, 3}, {6, 10}} {
		s.add(v.from, v.to)
	}
	require.Equal(t, intervals{{0, 3}, {5, 12}}, s)
	require.EqualValues(t, 3, s.complete())
	s.add(3, 5)
	require.Equal(t, intervals{{0, 12}}, s)
	require.Zero(t, intervals{{1, 2}}.complete())
}
