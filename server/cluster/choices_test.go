package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sluice/moqt"
)

var ns = moqt.Namespace{"live", "a"}

// peerIn returns a node in a region.
func peerIn(region, id string) Peer { return Peer{ID: id, URL: "moqt://" + id, Region: region} }

func names(choices []Choice) (list []string) {
	for _, h := range choices {
		name := h.Node
		if h.Origin {
			name += " as origin"
		}
		list = append(list, name)
	}
	return list
}

// ranked returns the names of n nodes, those with the highest rank for ns first.
func ranked(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	slices.SortFunc(list, func(a, b string) int { return rankOf(ns.String(), b).compare(rankOf(ns.String(), a)) })
	return list
}

func TestChoices(t *testing.T) {
	west := ranked("w", 3)
	high, middle, low := peerIn("west", west[0]), peerIn("west", west[1]), peerIn("west", west[2])
	east, asia := peerIn("east", "e"), peerIn("asia", "s")
	full := middle
	full.Cost.Load = 0.95
	fullHigh := high
	fullHigh.Cost.Load = 0.95
	cheap := asia
	cheap.Cost.RTT = 20 * time.Millisecond
	similar := asia
	similar.Cost.RTT = 97 * time.Millisecond
	type peers = []Peer
	none := []string(nil)
	for name, tc := range map[string]struct {
		self           Peer
		origins, nodes peers
		current        string
		want           []string
	}{
		"nobody publishes":   {low, nil, peers{high, east}, "", none},
		"own publisher only": {low, peers{low}, peers{high}, "", none},
		"origin in the region": {
			low, peers{middle}, peers{high, middle}, "",
			[]string{middle.ID + " as origin"},
		},
		"own region first": {
			low, peers{cheap, middle}, peers{high, middle}, "",
			[]string{middle.ID + " as origin", "s as origin"},
		},
		"edge": {
			low, peers{east}, peers{high, middle, east}, "",
			[]string{high.ID, middle.ID, "e as origin"},
		},
		"second rank": {
			middle, peers{east}, peers{high, low, east}, "",
			[]string{high.ID, "e as origin"},
		},
		"parent": {
			high, peers{east}, peers{middle, low, east}, "",
			[]string{"e as origin"},
		},
		"parent is dead": {
			low, peers{east}, peers{middle, east}, "",
			[]string{middle.ID, "e as origin"},
		},
		"parent has a full load": {
			low, peers{east}, peers{fullHigh, middle, east}, "",
			[]string{middle.ID, high.ID, "e as origin"},
		},
		"both have": {
			low, peers{east}, peers{fullHigh, full, east}, "",
			[]string{high.ID, middle.ID, "e as origin"},
		},
		"cheapest origin": {
			high, peers{east, cheap}, peers{east, cheap}, "",
			[]string{"s as origin", "e as origin"},
		},
		"current is much dearer": {
			high, peers{east, cheap}, nil, "e",
			[]string{"s as origin", "e as origin"},
		},
		"current is a little dearer": {
			high, peers{east, similar}, nil, "e",
			[]string{"e as origin", "s as origin"},
		},
		"no region is a region": {
			peerIn("", "x"), peers{peerIn("", "y")}, nil, "",
			[]string{"y as origin"},
		},
		"a current node that is not there": {
			high, peers{east}, nil, "z",
			[]string{"e as origin"},
		},
		"a parent that publishes elsewhere": {
			low, peers{east}, peers{high}, high.ID,
			[]string{high.ID, "e as origin"},
		},
		"the only node of its region": {
			asia, peers{east}, peers{east, high, middle}, "",
			[]string{"e as origin"},
		},
		"origin without a region, far edges": {
			low, peers{peerIn("", "o")}, peers{high}, "",
			[]string{high.ID, "o as origin"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, names(Choices(tc.self, ns, tc.origins, tc.nodes, tc.current)))
		})
	}
}

// TestLoadHysteresis shows that a parent which has become full gets its edges back only when its load has fallen.
func TestLoadHysteresis(t *testing.T) {
	west := ranked("w", 3)
	high, middle, low := peerIn("west", west[0]), peerIn("west", west[1]), peerIn("west", west[2])
	origins := []Peer{peerIn("east", "e")}
	current := ""
	for _, step := range []struct {
		load float64
		want string
	}{{0.5, high.ID}, {0.85, high.ID}, {0.95, middle.ID}, {0.85, middle.ID}, {0.75, middle.ID}, {0.65, high.ID}} {
		high.Cost.Load = step.load
		current = Choices(low, ns, origins, []Peer{high, middle}, current)[0].Node
		require.Equal(t, step.want, current, "load %v", step.load)
	}
}

// TestNoLoops lets each node believe anything: which others are alive, in which regions, who publishes. Whichever
// permitted hop a node takes, a request comes to an end.
func TestNoLoops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 12).Draw(t, "size")
		all := make([]string, size)
		for i := range all {
			all[i] = fmt.Sprint("n", i)
		}
		believed := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Peer {
			region := rapid.SampledFrom([]string{"", "west", "east"}).Draw(t, "region")
			p := peerIn(region, rapid.SampledFrom(all).Draw(t, "id"))
			p.Cost = Cost{
				RTT:  time.Duration(rapid.IntRange(0, 200).Draw(t, "rtt")) * time.Millisecond,
				Load: rapid.Float64Range(0, 1).Draw(t, "load"),
			}
			return p
		}), 0, size)
		choices := make(map[string][]Choice)
		for _, id := range all {
			self := peerIn(rapid.SampledFrom([]string{"", "west", "east"}).Draw(t, "own region"), id)
			others := slices.DeleteFunc(believed.Draw(t, "nodes"), func(p Peer) bool { return p.ID == id })
			origins, current := believed.Draw(t, "origins"), rapid.SampledFrom(all).Draw(t, "current")
			choices[id] = Choices(self, ns, origins, others, current)
		}
		var walk func(id string, visited []string)
		walk = func(id string, visited []string) {
			require.NotContains(t, visited, id, "a loop")
			for _, h := range choices[id] {
				require.NotEqual(t, id, h.Node, "a node that asks itself")
				if !h.Origin {
					walk(h.Node, append(slices.Clone(visited), id))
				}
			}
		}
		for _, id := range all {
			walk(id, nil)
		}
	})
}

// TestTree lets all nodes of random clusters know the same, before and after some have died: each finds the origin, and
// the track comes into each region once.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Peer
		for i := range rapid.IntRange(2, 30).Draw(t, "nodes") {
			region := rapid.SampledFrom([]string{"west", "east", "asia"}).Draw(t, "region")
			nodes = append(nodes, peerIn(region, fmt.Sprint("n", i)))
		}
		origin := nodes[0]
		checkTree(t, origin, nodes)
		alive := slices.DeleteFunc(slices.Clone(nodes), func(p Peer) bool {
			return p.ID != origin.ID && rapid.Bool().Draw(t, "dies")
		})
		checkTree(t, origin, alive)
	})
}

func checkTree(t *rapid.T, origin Peer, nodes []Peer) {
	into := make(map[string]map[string]bool) // by region: the nodes that ask the origin from there
	for _, self := range nodes {
		if self.ID == origin.ID {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(nodes), func(p Peer) bool { return p.ID == self.ID })
		first := Choices(self, ns, []Peer{origin}, others, "")[0]
		if !first.Origin {
			parent := nodes[slices.IndexFunc(nodes, func(p Peer) bool { return p.ID == first.Node })]
			require.Equal(t, self.Region, parent.Region)
			continue
		}
		require.Equal(t, origin.ID, first.Node)
		if into[self.Region] == nil {
			into[self.Region] = make(map[string]bool)
		}
		into[self.Region][self.ID] = true
	}
	for region, parents := range into {
		if region != origin.Region {
			require.Len(t, parents, 1, "the track comes into %s once", region)
		}
	}
}

// TestRendezvous shows that the death of a node changes the parent of those namespaces only whose parent it was.
func TestRendezvous(t *testing.T) {
	var nodes []Peer
	for i := range 10 {
		nodes = append(nodes, peerIn("west", fmt.Sprint("n", i)))
	}
	self, origins := peerIn("west", "edge"), []Peer{peerIn("east", "e")}
	of := make(map[string]int)
	for i := range 1000 {
		name := moqt.Namespace{"live", fmt.Sprint(i)}
		before := Choices(self, name, origins, nodes, "")[0].Node
		after := Choices(self, name, origins, nodes[1:], "")[0].Node
		of[before]++
		if before != nodes[0].ID {
			require.Equal(t, before, after)
		}
	}
	for _, p := range nodes {
		require.Greater(t, of[p.ID], 40, "the namespaces are spread evenly")
	}
}
