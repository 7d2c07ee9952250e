package check

import "math"

// findStuck looks for a cycle of states that all owe something: it is owed for ever. It returns what they owe, and the
// shortest way to the cycle.
func (g *graph[S]) findStuck() (what string, trace []string) {
	n := len(g.nodes)
	t := components[S]{graph: g, order: make([]int32, n), low: make([]int32, n), of: make([]int32, n)}
	for at := range g.nodes {
		if t.order[at] == 0 && g.owes(int32(at)) != "" {
			if first := t.search(int32(at)); first >= 0 {
				return g.owes(first) + " for ever", g.trace(first)
			}
		}
	}
	return "", nil
}

func (g *graph[S]) owes(at int32) string { return g.model.Owes(g.nodes[at].state) }

// components finds the strongly connected components of the states that owe something (Tarjan's algorithm, without
// recursion).
type components[S comparable] struct {
	graph      *graph[S]
	order, low []int32 // by state: when it was found, from 1 on; the earliest one of its component, as far as known
	of         []int32 // by state: its component, by the state that it was found with
	found      int32
	open       []int32 // found, and in no component yet
	calls      []call
}

// call is a state whose steps are being followed.
type call struct {
	at   int32
	next int // of its steps
}

// search explores from a state on. It returns the first state of a component where a fair run may stay, or -1.
func (t *components[S]) search(root int32) int32 {
	t.enter(root)
	for len(t.calls) > 0 {
		c := &t.calls[len(t.calls)-1]
		if steps := t.graph.nodes[c.at].steps; c.next < len(steps) {
			to := steps[c.next].to
			c.next++
			switch {
			case t.graph.owes(to) == "":
			case t.order[to] == 0:
				t.enter(to)
			default:
				t.low[c.at] = min(t.low[c.at], t.low[to])
			}
			continue
		}
		at := c.at
		t.calls = t.calls[:len(t.calls)-1]
		if t.low[at] == t.order[at] {
			if first := t.close(at); first >= 0 {
				return first
			}
		}
		if n := len(t.calls); n > 0 {
			above := t.calls[n-1].at
			t.low[above] = min(t.low[above], t.low[at])
		}
	}
	return -1
}

func (t *components[S]) enter(at int32) {
	t.found++
	t.order[at], t.low[at] = t.found, t.found
	t.open = append(t.open, at)
	t.calls = append(t.calls, call{at: at})
}

// close takes a whole component off the open states. It returns its first state if a fair run may stay in it, or -1.
func (t *components[S]) close(root int32) int32 {
	n := len(t.open) - 1
	for t.open[n] != root {
		n--
	}
	members := t.open[n:]
	t.open = t.open[:n]
	first := int32(math.MaxInt32)
	for _, at := range members {
		t.of[at] = t.order[root]
		first = min(first, at)
		t.low[at] = math.MaxInt32
	}
	for by, rule := range t.graph.model.Rules {
		if rule.Fair && !t.allows(members, int16(by)) {
			return -1
		}
	}
	return first
}

// allows reports whether a fair rule lets a run stay in a component: it leads from one of the members to another, or is
// not possible in one of them.
func (t *components[S]) allows(members []int32, by int16) bool {
	for _, at := range members {
		possible := false
		for _, s := range t.graph.nodes[at].steps {
			if s.by == by {
				if t.of[s.to] == t.of[at] {
					return true
				}
				possible = true
			}
		}
		if !possible {
			return true
		}
	}
	return false
}
