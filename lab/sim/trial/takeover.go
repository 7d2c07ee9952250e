package trial

import (
	"math/rand/v2"
	"slices"
	"time"

	"sluice/moqt"
)

// Takeover is a publisher whose session breaks off within a group, and another one that goes on with that group.
type Takeover struct {
	At   uint64        // objects that are published when the session breaks off
	Has  uint64        // objects that the relay has acknowledged
	Next uint64        // the other publisher begins with this object: 0, Has or At
	Gap  time.Duration // between the two publishers
	// Torn has the publisher break off within object At, whose beginning the relay's kernel forwards, while its socket
	// has no room for it. Publishers then give objects properties of different lengths.
	Torn bool `json:",omitempty"`
}

// takeovers has publishers break off within groups, and viewers join before others go on. Publishers of the schedule
// stay in one session, and the viewers' relay lives on.
func (g *generator) takeovers(rng *rand.Rand) {
	m, gaps := &g.Media, time.Duration(0)
	moves := func(m Mishap) bool { return m.What == Upgrade || m.What == Drain }
	if g.parts || g.Early > 0 || len(m.Restarts) > 0 || slices.ContainsFunc(g.Mishaps, moves) {
		return
	}
	m.Successions, m.Takeovers = nil, make(map[uint64]Takeover)
	m.Publisher.Hasty, m.Successor.Hasty = true, true
	for group := uint64(1); group < m.Groups; group += 1 + rng.Uint64N(4) {
		t := Takeover{At: 1 + rng.Uint64N(m.Objects-1)}
		if rng.IntN(3) > 0 {
			t.Has = t.At - min(t.At, rng.Uint64N(3))
		}
		if t.Next = t.Has; t.Has > 0 && rng.IntN(2) == 0 {
			t.Next = t.At
		}
		if rng.IntN(2) == 0 {
			t.Gap = time.Duration(rng.Int64N(int64(2 * time.Second)))
			g.view(time.Duration(group*m.Objects+t.At)*m.Pause + gaps + t.Gap/2)
			g.Viewers[len(g.Viewers)-1].Relay = g.Viewers[0].Relay // it is not killed
		}
		m.Takeovers[group], gaps = t, gaps+t.Gap
	}
}

// mayLack reports whether an object may be missing: its publisher is gone, and the relay has not acknowledged it.
func (m *Media) mayLack(at moqt.Location) bool {
	t := m.Takeovers[at.Group]
	return t.Has <= at.Object && at.Object < t.Next
}

// areTorn reports whether a publisher breaks off within an object.
func (m *Media) areTorn() bool {
	for _, t := range m.Takeovers {
		if t.Torn {
			return true
		}
	}
	return false
}

// takeOver publishes a group in two sessions, and returns the publisher that has gone on.
func takeOver(l *life, p *publisher, group uint64, t Takeover) *publisher {
	p.objects(group, 0, t.Has, l.begin)
	p.arrive()
	p.objects(group, t.Has, t.At, l.begin)
	if t.Torn {
		p.tear(moqt.Location{Group: group, Object: t.At})
	}
	l.note("a publisher breaks off behind %d objects of group %d", t.At, group)
	p.current[0].leave()
	time.Sleep(t.Gap)
	l.note("another publisher goes on with group %d, from object %d on", group, t.Next)
	p = l.publisher(1, l.Media.Successor, &l.Media, &moqt.Location{Group: group, Object: t.At - 1})
	o := p.current[0]
	o.begins = t.Next
	for object := t.Next; object < t.At; object++ {
		l.check(o.send(l.t.Context(), moqt.Location{Group: group, Object: object}))
	}
	p.objects(group, t.At, l.Media.Objects, l.begin)
	p.endGroup(group)
	return p
}
