package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tree: an origin, two parents, and four edges, which have the viewers. They are nodes by their index. There is a
// publisher at the origin, and another one at an edge.
const (
	origin      = 0
	firstParent = 1
	firstEdge   = 3
	nodes       = 7
)

// upstreamsOf returns the nodes that a node subscribes at, the preferred one first: the edges of a pair prefer the same
// parent.
func upstreamsOf(node int) []int {
	switch {
	case node == origin:
		return nil
	case node < firstEdge:
		return []int{origin}
	}
	own := firstParent + (node-firstEdge)/2
	return []int{own, 2*firstParent + 1 - own}
}

// mishap is what happens to a node.
type mishap string

const (
	killed    mishap = "is killed, and started again" // kill -9
	drained   mishap = "drains, and is started again" // SIGTERM
	cut       mishap = "is cut off"                   // its link to other nodes loses everything
	weathered mishap = "has weather"                  // its link to other nodes gets conditions
)

// treeEvent is an event of the schedule of a tree.
type treeEvent struct {
	at    time.Duration
	what  mishap
	node  int
	lasts time.Duration // until it is started, or can be reached, again
	link  string        // conditions
}

func (e treeEvent) String() string {
	text := fmt.Sprintf("%7.2fs node %d %s", e.at.Seconds(), e.node, e.what)
	if e.what == weathered {
		return text + ": " + e.link
	}
	return fmt.Sprintf("%s after %v", text, e.lasts)
}

// Between two mishaps that may cost media there is time for whole groups.
const (
	mishapGap  = 9 * time.Second
	weatherGap = 1500 * time.Millisecond
)

// newTreeSchedule returns the events of a run, and the edge that has a publisher. Equal seeds and durations give equal
// schedules. Every mishap comes before any of them comes again, and so does every node without a publisher.
func newTreeSchedule(seed uint64, duration time.Duration) (all []treeEvent, edge int) {
	r := rand.New(rand.NewPCG(seed, uint64(duration)))
	edge = firstEdge + r.IntN(nodes-firstEdge)
	var mishaps []mishap
	var victims []int
	next := mishapGap / 2
	for at := weatherGap; at < duration-mishapGap; at += weatherGap/2 + time.Duration(r.Int64N(int64(weatherGap))) {
		e := treeEvent{at: at.Truncate(10 * time.Millisecond), what: weathered, node: 1 + r.IntN(nodes-1)}
		e.link = weather[r.IntN(len(weather))]
		if at >= next {
			next = at + mishapGap
			if len(mishaps) == 0 {
				mishaps = shuffled(r, killed, drained, cut)
			}
			if len(victims) == 0 {
				without := func(node int) bool { return node == edge }
				victims = slices.DeleteFunc(shuffled(r, 1, 2, 3, 4, 5, 6), without)
			}
			e.what, e.node, e.link = mishaps[0], victims[0], ""
			mishaps, victims = mishaps[1:], victims[1:]
			e.lasts = (500*time.Millisecond + time.Duration(r.Int64N(int64(time.Second)))).Truncate(time.Millisecond)
		}
		all = append(all, e)
	}
	return all, edge
}

func shuffled[T any](r *rand.Rand, all ...T) []T {
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func TestTreeSchedule(t *testing.T) {
	const duration = 2 * time.Minute
	all, edge := newTreeSchedule(1, duration)
	again, _ := newTreeSchedule(1, duration)
	other, _ := newTreeSchedule(2, duration)
	require.Equal(t, all, again)
	require.NotEqual(t, all, other)
	mishaps, victims := make(map[mishap]bool), make(map[int]bool)
	var free time.Duration
	for _, e := range all {
		mishaps[e.what] = true
		if e.what == weathered {
			require.NotEmpty(t, e.link)
			continue
		}
		victims[e.node] = true
		require.GreaterOrEqual(t, e.at, free, e)
		free = e.at + e.lasts + mishapGap/2
		require.Less(t, free, duration, "there is time to recover")
	}
	require.Len(t, mishaps, 4)
	require.Len(t, victims, nodes-2, "all but those with publishers")
	require.NotContains(t, victims, origin)
	require.NotContains(t, victims, edge)
	require.Equal(t, [][]int{nil, {0}, {0}, {1, 2}, {1, 2}, {2, 1}, {2, 1}}, func() (all [][]int) {
		for node := range nodes {
			all = append(all, upstreamsOf(node))
		}
		return all
	}())
}
