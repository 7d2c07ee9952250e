package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/lab/sim"
	"sluice/media"
	"sluice/moqt"
)

// Timeouts are delivery timeouts (draft §8), in whole milliseconds. 0: none.
type Timeouts struct{ Object, Subgroup time.Duration }

// properties returns the timeouts as a publisher declares them.
func (t Timeouts) properties() (moqt.Properties, error) {
	var pairs []moqt.KeyValuePair
	for typ, d := range map[uint64]time.Duration{
		moqt.PropertyObjectDeliveryTimeout: t.Object, moqt.PropertySubgroupDeliveryTimeout: t.Subgroup,
	} {
		if d > 0 {
			pairs = append(pairs, moqt.KeyValuePair{Type: typ, Value: uint64(d.Milliseconds())})
		}
	}
	return moqt.NewProperties(pairs...)
}

// parameters adds the timeouts to the parameters of a subscription.
func (t Timeouts) parameters(p *moqt.Parameters) {
	set := func(d time.Duration) *uint64 {
		if d == 0 {
			return nil
		}
		return new(uint64(d.Milliseconds()))
	}
	p.ObjectDeliveryTimeout, p.SubgroupDeliveryTimeout = set(t.Object), set(t.Subgroup)
}

// with returns the shorter timeouts, each.
func (t Timeouts) with(other Timeouts) Timeouts {
	shorter := func(a, b time.Duration) time.Duration {
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	}
	return Timeouts{shorter(t.Object, other.Object), shorter(t.Subgroup, other.Subgroup)}
}

// hurry gives the track or some viewers delivery timeouts, between the delay of a good link and the queue of a narrow
// one. It makes links of viewers narrow who have a timeout: of the others, backlogs would grow.
func (g *generator) hurry(rng *rand.Rand) {
	choose := func() (d time.Duration) {
		if rng.IntN(2) == 0 {
			d = time.Duration(20*math.Exp(rng.Float64()*math.Log(150))) * time.Millisecond // 20 ms to 3 s
		}
		return d
	}
	if rng.IntN(2) == 0 {
		g.Media.Timeouts = Timeouts{choose(), choose()}
	}
	for i := range g.Viewers {
		g.Viewers[i].Timeouts = Timeouts{choose(), choose()}
	}
	if g.Drop == "" {
		g.squeeze(rng)
	}
	for i := range g.Viewers {
		v := &g.Viewers[i]
		if g.Drop == "" && g.Media.Timeouts.with(v.Timeouts).Object == 0 {
			v.Link.Rate, v.Link.Queue = 0, 0
		}
	}
}

// tooEarly returns which omissions came before the delivery timeout that they name.
func (l *life) tooEarly() (faults []string) {
	l.omitted.mu.Lock()
	defer l.omitted.mu.Unlock()
	for _, x := range l.omitted.all {
		t, last := l.Media.Timeouts, x.From
		for _, w := range l.viewers {
			if x.to == sim.Host(w.host) {
				t = t.with(w.spec.Timeouts)
			}
		}
		limit := t.Object
		switch x.Why {
		case media.ObjectTimedOut:
		case media.SubgroupTimedOut: // from when the subgroup was complete
			limit, last = t.Subgroup, l.Media.lastOf(x.Subgroup)
		default:
			continue
		}
		at, ok := l.firstPublished(x.Group, last)
		if !ok || limit == 0 || x.at.Sub(at) < limit {
			faults = append(faults, fmt.Sprintf("objects of group %d, subgroup %d from %d on are left out for %v "+
				"after %v: %v of %v", x.Group, x.Subgroup, x.From, x.to, x.at.Sub(at), x.Why, limit))
		}
	}
	return faults
}

// firstPublished returns when the object with an id was published first.
func (l *life) firstPublished(id, object uint64) (first time.Time, ok bool) {
	for group := range l.Media.Groups {
		at := l.published[moqt.Location{Group: group, Object: object}]
		if l.Media.groupID(group) == id && !at.IsZero() {
			return at, true
		}
	}
	return first, false
}

// bytes returns how many bytes of payload a subgroup has from an object on, up to another one.
func (m *Media) bytes(first uint64, last moqt.Location) (n int64) {
	for at := (moqt.Location{Group: last.Group, Object: first}); !last.Less(at); at.Object++ {
		if !m.isDatagram(at) && m.subgroup(at) == m.subgroup(last) {
			n += int64(m.size(at))
		}
	}
	return n
}

// lastOf returns the last object of a subgroup, or 0 if it has none.
func (m *Media) lastOf(subgroup uint64) (last uint64) {
	for object := range m.Objects {
		if at := (moqt.Location{Object: object}); !m.isDatagram(at) && m.subgroup(at) == subgroup {
			last = object
		}
	}
	return last
}

// tooLate returns which objects came to a viewer long after their delivery timeout, if no mishap has delayed them. A
// relay sends them in time; they arrive some time after they are published, and may wait in the queue of a link, or for
// a processor before the relay has them.
func (l *life) tooLate(w *viewer) (late []moqt.Location) {
	limit := l.Media.Timeouts.with(w.spec.Timeouts).Object
	delays := func(m Mishap) bool { return m.Viewer == 0 || m.Viewer == w.number }
	if limit == 0 || l.loses || len(l.Media.Restarts)+len(l.Media.Takeovers) > 0 ||
		slices.ContainsFunc(l.Mishaps, delays) {
		return nil
	}
	longest := time.Duration(l.last())*limit + w.spec.Link.Queue + arrives
	for o := w.oracle; o != nil; o = o.before {
		for at, came := range o.got {
			since := l.published[at]
			if took := came.Sub(since); !came.IsZero() && took > longest && took > longest+l.kernelsLate(since, came) {
				late = append(late, at)
			}
		}
	}
	return late
}

// kernelsLate returns for how long the kernels of relays were late between two times, in all.
func (l *life) kernelsLate(from, to time.Time) (sum time.Duration) {
	for _, p := range l.running() {
		if p.kernel != nil {
			sum += p.kernel.Late(from, to)
		}
	}
	return sum
}
