package trial

import (
	"iter"
	"maps"
	"slices"
	"time"

	"sluice/lab/sim"
)

// Shrink returns the smallest schedule that it finds which fails as one does. It tries no more than a number of
// schedules.
func Shrink(s *Schedule, tries int, fails func(*Schedule) bool) *Schedule {
	for smaller := true; smaller; {
		smaller = false
		for c := range s.smaller() {
			if tries--; tries < 0 {
				return s
			}
			if fails(c) {
				s, smaller = c, true
				break
			}
		}
	}
	return s
}

// smaller yields schedules that are smaller by one thing each, those first that leave out most.
func (s *Schedule) smaller() iter.Seq[*Schedule] {
	return func(yield func(*Schedule) bool) {
		for _, kind := range []iter.Seq[*Schedule]{
			s.fewerRelays, s.fewerNodes, s.fewerGuests, s.fewerMishaps, s.fewerViewers, s.lessMedia, s.betterLinks,
		} {
			for c := range kind {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// with returns a copy that was changed, without the mishaps that it has no place for.
func (s *Schedule) with(change func(*Schedule)) *Schedule {
	c := *s
	c.Viewers, c.Paths = slices.Clone(s.Viewers), slices.Clone(s.Paths)
	change(&c)
	c.Viewers = slices.DeleteFunc(slices.Clone(c.Viewers), func(v Viewer) bool { return v.Joins > c.length() })
	c.Mishaps = slices.DeleteFunc(slices.Clone(c.Mishaps), func(m Mishap) bool { return !c.has(m) })
	if s.RTSP != nil && c.RTSP != nil {
		r := *c.RTSP
		r.Guests, r.Frames = slices.Clone(r.Guests), min(r.Frames, uint64(c.length()/r.Pause))
		for i := range r.Guests {
			r.Guests[i].Relay = min(r.Guests[i].Relay, c.last())
		}
		c.RTSP = &r
	}
	later := func(group uint64) bool { return group >= c.Media.Groups }
	c.Media.Successions = slices.DeleteFunc(slices.Clone(c.Media.Successions), later)
	c.Media.Restarts = slices.DeleteFunc(slices.Clone(c.Media.Restarts), later)
	return &c
}

// has reports whether there is what a mishap happens to, and when.
func (s *Schedule) has(m Mishap) bool {
	if m.At > s.length() {
		return false
	}
	switch m.What {
	case Kill:
		return slices.Contains(s.spare(), m.Relay)
	case Cut:
		if m.Relay == m.Upstream {
			return m.Relay >= 1 && m.Relay <= s.last()
		}
		if s.Cluster != nil {
			return m.Relay > m.Upstream && m.Upstream >= 1 && m.Relay <= s.last()
		}
		return m.Relay >= 1 && m.Relay <= s.last() && slices.Contains(s.Upstream[m.Relay-1], m.Upstream)
	case Drain:
		return m.Relay > 1 && m.Relay <= s.last() && m.Upstream >= 1 && m.Upstream < m.Relay
	case Excess:
		return s.Limits.RequestRate > 0 && m.Relay >= 1 && m.Relay <= s.last()
	case Greed:
		return s.Limits.Sessions > 0 && m.Relay >= 1 && m.Relay <= s.last()
	case Upgrade, Storm:
		return m.Relay >= 1 && m.Relay <= s.last()
	case Part:
		return s.Cluster != nil && m.Relay >= 1 && m.Relay <= s.last()
	case Rebind, Leave, Pause, Stall:
		return slices.ContainsFunc(s.Viewers, func(v Viewer) bool { return v.Number == m.Viewer })
	}
	return false
}

// fewerRelays yields the schedule with each shape that has fewer relays, or no cluster. All links between relays are
// those of the first path, and all viewers are at the last relay.
func (s *Schedule) fewerRelays(yield func(*Schedule) bool) {
	for _, shape := range [][][]int{{nil}, {nil, {1}}, {nil, {1}, {2}}} {
		if len(shape) >= len(s.Upstream) && s.Cluster == nil {
			return
		}
		c := s.with(func(c *Schedule) {
			c.Upstream, c.Cluster, c.Paths = shape, nil, nil
			for i := range c.Viewers {
				c.Viewers[i].Relay = 0
			}
			for relay := 2; relay <= len(shape); relay++ {
				c.Paths = append(c.Paths, Path{relay, relay - 1, s.Paths[0].Link})
			}
		})
		if !yield(c) {
			return
		}
	}
}

// fewerNodes leaves out each node of a cluster but the first, has all of them in one region and without load, and has
// each message arrive.
func (s *Schedule) fewerNodes(yield func(*Schedule) bool) {
	if s.Cluster == nil {
		return
	}
	for node := 2; node <= s.last() && s.last() > 2; node++ {
		if c := s.with(func(c *Schedule) { c.removeNode(node) }); len(c.Viewers) > 0 && !yield(c) {
			return
		}
	}
	plain := *s.Cluster
	plain.Nodes = slices.Clone(plain.Nodes)
	for i := range plain.Nodes {
		plain.Nodes[i].Region, plain.Nodes[i].Load = "", 0
	}
	if !slices.Equal(plain.Nodes, s.Cluster.Nodes) && !yield(s.with(func(c *Schedule) { c.Cluster = &plain })) {
		return
	}
	good := *s.Cluster
	good.Messages = Messages{Servers: good.Messages.Servers, Delay: good.Messages.Delay}
	if good.Messages != s.Cluster.Messages {
		yield(s.with(func(c *Schedule) { c.Cluster = &good }))
	}
}

// removeNode removes a node of the cluster, with its viewers and its links. Later ones take the numbers before theirs.
func (s *Schedule) removeNode(node int) {
	less := func(number *int) {
		if *number > node {
			*number--
		}
	}
	s.Viewers = slices.DeleteFunc(s.Viewers, func(v Viewer) bool { return s.relayOf(&v) == node })
	for i := range s.Viewers {
		less(&s.Viewers[i].Relay)
	}
	s.Paths = slices.DeleteFunc(s.Paths, func(p Path) bool { return p.Relay == node || p.Upstream == node })
	for i := range s.Paths {
		less(&s.Paths[i].Relay)
		less(&s.Paths[i].Upstream)
	}
	s.Mishaps = slices.DeleteFunc(slices.Clone(s.Mishaps), func(m Mishap) bool {
		return m.Relay == node || m.Upstream == node
	})
	for i := range s.Mishaps {
		less(&s.Mishaps[i].Relay)
		less(&s.Mishaps[i].Upstream)
	}
	s.Upstream = make([][]int, s.last()-1)
	c := *s.Cluster
	c.Nodes = slices.Delete(slices.Clone(c.Nodes), node-1, node)
	s.Cluster = &c
}

// fewerMishaps leaves out all mishaps, each half of them, and each.
func (s *Schedule) fewerMishaps(yield func(*Schedule) bool) {
	n := len(s.Mishaps)
	for _, size := range slices.Compact([]int{n, (n + 1) / 2, 1}) {
		for at := 0; at < n; at += size {
			c := s.with(func(c *Schedule) { c.Mishaps = slices.Delete(slices.Clone(c.Mishaps), at, min(at+size, n)) })
			if !yield(c) {
				return
			}
		}
	}
}

// fewerGuests leaves out all guests by RTSP, each of them, those who are rude, and each stall.
func (s *Schedule) fewerGuests(yield func(*Schedule) bool) {
	if s.RTSP == nil || !yield(s.with(func(c *Schedule) { c.RTSP = nil })) {
		return
	}
	var changes []func(*RTSP)
	for i, g := range s.RTSP.Guests {
		changes = append(changes, func(r *RTSP) { r.Guests = slices.Delete(slices.Clone(r.Guests), i, i+1) })
		if g.Lasts > 0 {
			changes = append(changes, func(r *RTSP) {
				r.Guests = slices.Clone(r.Guests)
				r.Guests[i].Lasts = 0
			})
		}
	}
	if len(s.RTSP.Rude) > 0 {
		changes = append(changes, func(r *RTSP) { r.Rude = nil })
	}
	for _, change := range changes {
		r := *s.RTSP
		change(&r)
		if !yield(s.with(func(c *Schedule) { c.RTSP = &r })) {
			return
		}
	}
}

// fewerViewers leaves out each viewer, but not the only one, each fetch, each choice of groups, and each timeout.
func (s *Schedule) fewerViewers(yield func(*Schedule) bool) {
	for i := 0; i < len(s.Viewers) && len(s.Viewers) > 1; i++ {
		if !yield(s.with(func(c *Schedule) { c.Viewers = slices.Delete(slices.Clone(c.Viewers), i, i+1) })) {
			return
		}
	}
	for i, v := range s.Viewers {
		if v.Fetch && !yield(s.with(func(c *Schedule) { c.Viewers[i].Fetch = false })) {
			return
		}
		if v.Streams != 0 && !yield(s.with(func(c *Schedule) { c.Viewers[i].Streams = 0 })) {
			return
		}
		if v.Timeouts != (Timeouts{}) && !yield(s.with(func(c *Schedule) { c.Viewers[i].Timeouts = Timeouts{} })) {
			return
		}
		if v.Only != nil && !yield(s.with(func(c *Schedule) { c.Viewers[i].Only = nil })) {
			return
		}
	}
}

// lessMedia has fewer groups, smaller groups, and fewer publishers.
func (s *Schedule) lessMedia(yield func(*Schedule) bool) {
	changes := []func(*Media){
		func(m *Media) { m.Groups /= 2 },
		func(m *Media) { m.Groups -= m.Groups / 4 },
		func(m *Media) { m.Groups-- },
		func(m *Media) { m.Objects /= 2 },
		func(m *Media) { m.Subgroups = 0 },
		func(m *Media) { m.Datagrams = 0 },
		func(m *Media) { m.Timeouts = Timeouts{} },
		func(m *Media) { m.Successions = nil },
		func(m *Media) { m.Restarts = nil },
		func(m *Media) { m.Takeovers = nil },
		func(m *Media) { m.Publisher.Hasty, m.Successor.Hasty = false, false },
	}
	for i := range s.Media.Successions {
		changes = append(changes, func(m *Media) { m.Successions = slices.Delete(slices.Clone(m.Successions), i, i+1) })
	}
	for group := range s.Media.Takeovers {
		changes = append(changes, func(m *Media) {
			m.Takeovers = maps.Clone(m.Takeovers)
			delete(m.Takeovers, group)
		})
	}
	for _, change := range changes {
		c := s.with(func(c *Schedule) { change(&c.Media) })
		if c.Media.Groups == 0 || c.Media.Objects == 0 || c.size() == s.size() {
			continue
		}
		if !yield(c) {
			return
		}
	}
}

// size counts what lessMedia makes less.
func (s *Schedule) size() time.Duration {
	var hasty time.Duration
	if s.Media.Publisher.Hasty || s.Media.Successor.Hasty {
		hasty = 1
	}
	return s.length() + time.Duration(len(s.Media.Successions)+len(s.Media.Restarts)+len(s.Media.Takeovers)) +
		time.Duration(s.Media.Subgroups+s.Media.Datagrams) + hasty + s.Media.Timeouts.Object + s.Media.Timeouts.Subgroup
}

// betterLinks makes each link perfect but for its delay.
func (s *Schedule) betterLinks(yield func(*Schedule) bool) {
	links := func(c *Schedule) (all []*sim.Link) {
		all = append(all, &c.Media.Publisher.Link, &c.Media.Successor.Link)
		for i := range c.Paths {
			all = append(all, &c.Paths[i].Link)
		}
		for i := range c.Viewers {
			all = append(all, &c.Viewers[i].Link)
		}
		if c.RTSP != nil {
			r := *c.RTSP
			r.Guests, c.RTSP = slices.Clone(r.Guests), &r
			all = append(all, &r.Link)
			for i := range r.Guests {
				all = append(all, &r.Guests[i].Link)
			}
		}
		return all
	}
	for i, l := range links(s) {
		better := sim.Link{Delay: l.Delay}
		if *l != better && !yield(s.with(func(c *Schedule) { *links(c)[i] = better })) {
			return
		}
	}
}
