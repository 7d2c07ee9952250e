package trial

import (
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"

	"sluice/lab/sim"
)

// Shrink returns the smallest schedule that it finds which fails as one does. It tries no more than a number of
// schedules.
func Shrink(s *Schedule, tries int, fails func(*Schedule) bool) *Schedule {
	for found := true; found; {
		found = false
		for c := range smaller(s) {
			if tries--; tries < 0 {
				return s
			}
			if fails(c) {
				s, found = c, true
				break
			}
		}
	}
	return s
}

// smaller yields schedules that are smaller by one thing each, those first that leave out most.
func smaller(s *Schedule) iter.Seq[*Schedule] {
	return func(yield func(*Schedule) bool) {
		for _, change := range slices.Concat(fewerRelays(s), fewerNodes(s), fewerGuests(s), fewerMishaps(s),
			fewerViewers(s), lessMedia(s), betterLinks(s)) {
			c := s.with(change)
			if c.Validate() == nil && !reflect.DeepEqual(c, s) && !yield(c) {
				return
			}
		}
	}
}

// with returns a copy that was changed, without the mishaps that it has no place for.
func (s *Schedule) with(change func(*Schedule)) *Schedule {
	c := new(Schedule)
	b, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(b, c)
	}
	if err != nil {
		panic(err) // a schedule is data
	}
	change(c)
	c.Viewers = slices.DeleteFunc(c.Viewers, func(v Viewer) bool { return v.Joins > c.length() })
	c.Mishaps = slices.DeleteFunc(c.Mishaps, func(m Mishap) bool { return !c.has(m) })
	if r := c.RTSP; r != nil {
		r.Frames = min(r.Frames, uint64(c.length()/r.Pause))
		for i := range r.Guests {
			r.Guests[i].Relay = min(r.Guests[i].Relay, c.last())
		}
	}
	later := func(group uint64) bool { return group >= c.Media.Groups }
	c.Media.Successions = slices.DeleteFunc(c.Media.Successions, later)
	c.Media.Restarts = slices.DeleteFunc(c.Media.Restarts, later)
	return c
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
	case Rebind, Readdress, Leave, Pause, Stall:
		return slices.ContainsFunc(s.Viewers, func(v Viewer) bool { return v.Number == m.Viewer })
	}
	return false
}

// fewerRelays returns changes to each shape that has fewer relays, or no cluster. Every path between relays then has
// the link of the first path, and all viewers are at the last relay.
func fewerRelays(s *Schedule) (all []func(*Schedule)) {
	for _, shape := range [][][]int{{nil}, {nil, {1}}, {nil, {1}, {2}}} {
		if len(shape) >= len(s.Upstream) && s.Cluster == nil {
			break
		}
		all = append(all, func(c *Schedule) {
			c.Upstream, c.Cluster, c.Paths = shape, nil, nil
			for i := range c.Viewers {
				c.Viewers[i].Relay = 0
			}
			for relay := 2; relay <= len(shape); relay++ {
				c.Paths = append(c.Paths, Path{relay, relay - 1, s.Paths[0].Link})
			}
		})
	}
	return all
}

// fewerNodes leaves out each node of a cluster but the first, has all of them in one region and without load, and has
// each message arrive.
func fewerNodes(s *Schedule) (all []func(*Schedule)) {
	if s.Cluster == nil {
		return nil
	}
	for node := 2; node <= s.last() && s.last() > 2; node++ {
		all = append(all, func(c *Schedule) { removeNode(c, node) })
	}
	return append(all, func(c *Schedule) {
		for i := range c.Cluster.Nodes {
			c.Cluster.Nodes[i].Region, c.Cluster.Nodes[i].Load = "", 0
		}
	}, func(c *Schedule) {
		m := &c.Cluster.Messages
		*m = Messages{Servers: m.Servers, Delay: m.Delay}
	})
}

// removeNode removes a node of the cluster, with its viewers and its links. Later ones take the numbers before theirs.
func removeNode(s *Schedule, node int) {
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
	s.Mishaps = slices.DeleteFunc(s.Mishaps, func(m Mishap) bool { return m.Relay == node || m.Upstream == node })
	for i := range s.Mishaps {
		less(&s.Mishaps[i].Relay)
		less(&s.Mishaps[i].Upstream)
	}
	s.Upstream = make([][]int, s.last()-1)
	s.Cluster.Nodes = slices.Delete(s.Cluster.Nodes, node-1, node)
}

// fewerMishaps leaves out all mishaps, each half of them, and each.
func fewerMishaps(s *Schedule) (all []func(*Schedule)) {
	n := len(s.Mishaps)
	for _, size := range slices.Compact([]int{n, (n + 1) / 2, 1}) {
		for at := 0; at < n; at += size {
			all = append(all, func(c *Schedule) { c.Mishaps = slices.Delete(c.Mishaps, at, min(at+size, n)) })
		}
	}
	return all
}

// fewerGuests leaves out all guests by RTSP, each of them, those who are rude, and each stall.
func fewerGuests(s *Schedule) (all []func(*Schedule)) {
	if s.RTSP == nil {
		return nil
	}
	all = append(all, func(c *Schedule) { c.RTSP = nil })
	for i := range s.RTSP.Guests {
		all = append(all,
			func(c *Schedule) { c.RTSP.Guests = slices.Delete(c.RTSP.Guests, i, i+1) },
			func(c *Schedule) { c.RTSP.Guests[i].Lasts = 0 })
	}
	return append(all, func(c *Schedule) { c.RTSP.Rude = nil })
}

// fewerViewers leaves out each viewer, each fetch, each choice of groups, and each timeout.
func fewerViewers(s *Schedule) (all []func(*Schedule)) {
	for i := range s.Viewers {
		all = append(all, func(c *Schedule) { c.Viewers = slices.Delete(c.Viewers, i, i+1) })
	}
	for i := range s.Viewers {
		all = append(all,
			func(c *Schedule) { c.Viewers[i].Fetch = false },
			func(c *Schedule) { c.Viewers[i].Streams = 0 },
			func(c *Schedule) { c.Viewers[i].Timeouts = Timeouts{} },
			func(c *Schedule) { c.Viewers[i].Only = nil })
	}
	return all
}

// lessMedia has fewer groups, smaller groups, and fewer publishers.
func lessMedia(s *Schedule) (all []func(*Schedule)) {
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
		changes = append(changes, func(m *Media) { m.Successions = slices.Delete(m.Successions, i, i+1) })
	}
	for _, group := range slices.Sorted(maps.Keys(s.Media.Takeovers)) {
		changes = append(changes, func(m *Media) { delete(m.Takeovers, group) })
	}
	for _, change := range changes {
		all = append(all, func(c *Schedule) { change(&c.Media) })
	}
	return all
}

// betterLinks makes each link perfect but for its delay.
func betterLinks(s *Schedule) (all []func(*Schedule)) {
	for i := range links(s) {
		all = append(all, func(c *Schedule) {
			l := links(c)[i]
			*l = sim.Link{Delay: l.Delay}
		})
	}
	return all
}

// links returns all links but that between the processes of a relay.
func links(s *Schedule) (all []*sim.Link) {
	all = append(all, &s.Media.Publisher.Link, &s.Media.Successor.Link)
	for i := range s.Paths {
		all = append(all, &s.Paths[i].Link)
	}
	for i := range s.Viewers {
		all = append(all, &s.Viewers[i].Link)
	}
	if s.RTSP != nil {
		all = append(all, &s.RTSP.Link)
		for i := range s.RTSP.Guests {
			all = append(all, &s.RTSP.Guests[i].Link)
		}
	}
	return all
}
