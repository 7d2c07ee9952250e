package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tree of --upstream: an origin, two parents, and four edges. They are nodes by their index. In a cluster each node
// may be anything, and the regions have the nodes of a branch.
const (
	origin      = 0
	firstParent = 1
	firstEdge   = 3
	nodes       = 7
)

// broadcasts is how many there are, each with a publisher of its own, and treeViewers how many viewers, each in a host
// of its own.
const (
	broadcasts  = 2
	treeViewers = 8
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

// regionOf returns the region of a node of a cluster.
func regionOf(node int) string { return []string{"a", "b", "c", "b", "b", "c", "c"}[node] }

// mishap is what happens to a node, or to what nodes find each other by.
type mishap string

const (
	killed   mishap = "is killed, and started again" // kill -9
	unheard  mishap = "is killed while NATS is away, and both are started again"
	bereaved mishap = "is killed, and its publisher goes elsewhere"
	drained  mishap = "drains, and is started again" // SIGTERM
	replaced mishap = "is replaced"                  // --replace
	cut      mishap = "is cut off"                   // its link to other nodes loses everything
	deaf     mishap = "is cut off from NATS"
	lost     mishap = "NATS servers are killed, and started again"

	weathered mishap = "has weather" // its link to other nodes gets conditions
)

// arrangement is how nodes know of each other.
type arrangement struct {
	name    string
	mesh    bool // they find each other, so that publishers and viewers may be anywhere, and go elsewhere
	servers bool // by NATS servers of the operator
	mishaps []mishap
}

// arrangements are taken in turn, by the seed.
var arrangements = []arrangement{
	{name: "--upstream", mishaps: []mishap{killed, drained, cut, replaced}},
	{name: "--cluster", mesh: true, mishaps: []mishap{killed, bereaved, drained, replaced, cut, deaf}},
	{
		name: "--cluster-url", mesh: true, servers: true,
		mishaps: []mishap{killed, unheard, bereaved, drained, replaced, cut, deaf, lost},
	},
}

// isAboutNATS reports whether a mishap leaves relays, and all between them, as they are.
func (m mishap) isAboutNATS() bool { return m == deaf || m == lost }

// treeEvent is an event of the schedule of a tree.
type treeEvent struct {
	at     time.Duration
	what   mishap
	node   int
	to     int           // the node where clients of a node go that drains or dies
	lasts  time.Duration // until it is started, or can be reached, again
	link   string        // conditions
	viewer int           // who leaves, and comes to another node, when something happens to NATS

	began, ended time.Time // when it has happened
}

func (e treeEvent) String() string {
	switch e.what {
	case weathered:
		return fmt.Sprintf("%7.2fs node %d %s: %s", e.at.Seconds(), e.node, e.what, e.link)
	case lost:
		return fmt.Sprintf("%7.2fs %s after %v", e.at.Seconds(), e.what, e.lasts)
	}
	return fmt.Sprintf("%7.2fs node %d %s after %v", e.at.Seconds(), e.node, e.what, e.lasts)
}

// treePlan is a run: where clients are at first, and what happens.
type treePlan struct {
	arrangement
	publishers []int // nodes, by broadcast
	viewers    []int // nodes
	events     []treeEvent
}

// Between two mishaps that may cost media there is time for whole groups.
const (
	mishapGap  = 9 * time.Second
	weatherGap = 1500 * time.Millisecond
)

// newTreePlan returns the plan of a run. Equal seeds and durations give equal plans. Every mishap comes before any of
// them comes again.
func newTreePlan(seed uint64, duration time.Duration) treePlan {
	p := &treePlanner{
		Rand:     rand.New(rand.NewPCG(seed, uint64(duration))),
		treePlan: treePlan{arrangement: arrangements[seed%uint64(len(arrangements))]},
	}
	p.place()
	next := mishapGap / 2
	for at := weatherGap; at < duration-mishapGap; at += p.between(weatherGap/2, 3*weatherGap/2) {
		e := treeEvent{what: weathered, node: p.IntN(nodes), link: weather[p.IntN(len(weather))]}
		if at >= next {
			e = p.mishap()
			next = at + e.lasts + mishapGap
		}
		e.at = at
		if e.at+e.lasts <= duration-mishapGap {
			p.events = append(p.events, e)
		}
	}
	return p.treePlan
}

// treePlanner makes a plan.
type treePlanner struct {
	*rand.Rand
	treePlan
	at    []int  // the node of each publisher now
	moved []bool // publishers that have followed a node's GOAWAY, which names only one other address

	mishaps []mishap // that are still to come before any of them comes again
	victims []int    // likewise
}

// place says where clients are at first.
func (p *treePlanner) place() {
	if p.mesh {
		p.publishers = p.Perm(nodes)[:broadcasts]
	} else {
		p.publishers = []int{origin, firstEdge + p.IntN(nodes-firstEdge)}
	}
	for i := range treeViewers {
		node := firstEdge + i/2
		if p.mesh {
			node = p.IntN(nodes)
		}
		p.viewers = append(p.viewers, node)
	}
	p.at, p.moved = slices.Clone(p.publishers), make([]bool, broadcasts)
}

// mishap returns the next one.
func (p *treePlanner) mishap() treeEvent {
	if len(p.mishaps) == 0 {
		p.mishaps = slices.Clone(p.arrangement.mishaps)
		p.Shuffle(len(p.mishaps), func(i, j int) { p.mishaps[i], p.mishaps[j] = p.mishaps[j], p.mishaps[i] })
	}
	e := treeEvent{what: p.mishaps[0], lasts: p.between(500*time.Millisecond, 1500*time.Millisecond)}
	p.mishaps = p.mishaps[1:]
	switch e.what {
	case deaf, lost:
		e.lasts = p.between(time.Second, 8*time.Second)
	case replaced: // until the sessions of the old process have moved
		e.lasts = 0
	}
	e.node, e.viewer = p.victim(e.what), p.IntN(treeViewers)
	e.to = p.elsewhere(e.node)
	for b, node := range p.at {
		switch {
		case node != e.node:
		case e.what == drained:
			p.at[b], p.moved[b] = e.to, true
		case e.what == bereaved:
			p.at[b] = e.to
		}
	}
	return e
}

func (p *treePlanner) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(p.Int64N(int64(most-least)))).Truncate(time.Millisecond)
}

// victim returns the node for a mishap: all have one, as far as possible, before any of them has another.
func (p *treePlanner) victim(m mishap) int {
	if m == bereaved {
		return p.at[p.IntN(broadcasts)]
	}
	for {
		if i := slices.IndexFunc(p.victims, func(node int) bool { return p.mayHit(m, node) }); i >= 0 {
			node := p.victims[i]
			p.victims = slices.Delete(p.victims, i, i+1)
			return node
		}
		p.victims = append(p.victims, p.Perm(nodes)...)
	}
}

// mayHit reports whether a node may be the victim of a mishap: publishers cannot leave each node in each way.
func (p *treePlanner) mayHit(m mishap, node int) bool {
	for b, at := range p.at {
		if at == node && (m == killed || m == unheard || m == cut || m == drained && (!p.mesh || p.moved[b])) {
			return false
		}
	}
	return true
}

// elsewhere returns a node that has no publisher, and is another one.
func (p *treePlanner) elsewhere(node int) int {
	for {
		if to := p.IntN(nodes); to != node && !slices.Contains(p.at, to) {
			return to
		}
	}
}

func TestTreePlan(t *testing.T) {
	const duration = 4 * time.Minute
	for seed := range uint64(30) {
		p := newTreePlan(seed, duration)
		require.Equal(t, p, newTreePlan(seed, duration))
		require.NotEqual(t, p.events, newTreePlan(seed+3, duration).events)
		require.Len(t, p.viewers, treeViewers)
		have, victims, at := make(map[mishap]bool), make(map[int]bool), slices.Clone(p.publishers)
		var free time.Duration
		for _, e := range p.events {
			have[e.what] = true
			if e.what == weathered {
				require.NotEmpty(t, e.link)
				continue
			}
			victims[e.node] = true
			require.GreaterOrEqual(t, e.at, free, e)
			free = e.at + e.lasts + mishapGap
			require.LessOrEqual(t, free, duration, "there is time to recover")
			has := slices.Contains(at, e.node)
			switch e.what {
			case killed, unheard, cut:
				require.False(t, has, e)
			case bereaved:
				require.True(t, has, e)
			case drained:
				require.False(t, has && !p.mesh, e)
			default:
				continue
			}
			for b, node := range at {
				if node == e.node {
					at[b] = e.to
				}
			}
			require.NotEqual(t, at[0], at[1])
		}
		require.Len(t, have, len(p.mishaps)+1, "all, and weather")
		require.Greater(t, len(victims), nodes/2)
	}
	require.Equal(t, [][]int{nil, {0}, {0}, {1, 2}, {1, 2}, {2, 1}, {2, 1}}, func() (all [][]int) {
		for node := range nodes {
			all = append(all, upstreamsOf(node))
		}
		return all
	}())
}
