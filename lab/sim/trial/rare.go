package trial

import (
	"math/rand/v2"
	"slices"
	"time"
)

// rare chooses what few schedules have.
func (g *generator) rare(rng *rand.Rand) {
	for i := range g.Mishaps {
		if m := &g.Mishaps[i]; m.What == Pause && rng.IntN(2) == 0 {
			m.Lasts = 0
		}
	}
	switch n := rng.IntN(12); {
	case n < 4 && g.last() == 1:
		g.restart(rng)
	case n < 6:
		g.hasten(rng)
	case n >= 10:
		g.tighten(rng)
	case n >= 8 && g.last() > 1:
		g.drain(rng)
	}
}

// brief has groups of few objects, as sound has, and runs of kernels that may be late until such a group is over.
func brief(g *generator, rng *rand.Rand) {
	m := &g.Media
	objects := m.Groups * m.Objects
	m.Objects = 2 + rng.Uint64N(3)
	m.Groups = min(objects/m.Objects, 100)
	g.Early = 0.3 * rng.Float64()
}

// calm has runs be late less often where they open many streams: a flow whose runs are late for longer than they are
// not carries nothing.
func calm(g *generator) {
	m := &g.Media
	streams := float64(max(m.Subgroups, 1)) / (float64(m.Objects) * m.Pause.Seconds()) // that begin in a second
	g.Early = min(g.Early, 0.5/(streams*float64(len(g.Viewers))))
}

// restart has the publisher of the only relay start again with group 0, with other objects than before.
func (g *generator) restart(rng *rand.Rand) {
	g.Media.Publisher.Hasty = true
	g.Media.Restarts = []uint64{1 + rng.Uint64N(g.Media.Groups-1)}
	g.Media.Successions = nil  // a successor would do the same if it came before the first publisher is found dead
	for i := range g.Viewers { // which group is meant is not certain
		g.Viewers[i].Fetch, g.Viewers[i].Only = false, nil
	}
}

// hasten has publishers leave as soon as their relay has all, but may not have read it. Their links are short.
func (g *generator) hasten(rng *rand.Rand) {
	for _, c := range []*Client{&g.Media.Publisher, &g.Media.Successor} {
		c.Hasty = true
		c.Link.Delay = time.Duration(1+rng.IntN(5)) * time.Millisecond
	}
}

// tighten has viewers allow few streams. Each reads nothing for a time, and meanwhile wants nothing: its relay gives up
// streams that wait for others to end.
func (g *generator) tighten(rng *rand.Rand) {
	for i := range g.Viewers {
		v := &g.Viewers[i]
		if g.gone[v.Number] {
			continue // it could not leave
		}
		v.Streams = 2 + rng.Int64N(4)
		if v.Scheme == "https" {
			v.Streams += 3 // for HTTP/3
		}
		at, lasts := time.Duration(rng.Int64N(int64(g.length()))), time.Duration(rng.Int64N(int64(10*time.Second)))
		g.Mishaps = append(g.Mishaps, Mishap{At: at, What: Stall, Viewer: v.Number, Lasts: lasts},
			Mishap{At: min(at+lasts/2, g.length()), What: Pause, Viewer: v.Number, Lasts: lasts / 4})
	}
}

// drain has the last relay with viewers send them to one before it that lives on. They would not fetch all that they
// lack if they wanted some groups only, or had narrow links. Those who come a moment before would be turned away.
func (g *generator) drain(rng *rand.Rand) {
	from, to := g.last(), 1+rng.IntN(g.last()-1)
	for !g.hasClients(from) {
		from--
	}
	stays := func(v Viewer) bool { return g.relayOf(&v) == from && (v.Only != nil || v.Link.Rate > 0) }
	ends := func(m Mishap) bool { return m.What == Kill && m.Relay == to }
	if to >= from || slices.ContainsFunc(g.Viewers, stays) || slices.ContainsFunc(g.Mishaps, ends) {
		return
	}
	at := time.Duration(rng.Int64N(int64(g.length())))
	for i := range g.Viewers {
		if v := &g.Viewers[i]; g.relayOf(v) == from && v.Joins > max(0, at-drainTime) {
			v.Relay = to
		}
	}
	g.Mishaps = append(g.Mishaps, Mishap{At: at, What: Drain, Relay: from, Upstream: to})
}

// roam has a viewer change its address now and then, and the NATs of others take another address and not another port.
func roam(g *generator, rng *rand.Rand) {
	for i := range g.Mishaps {
		if m := &g.Mishaps[i]; m.What == Rebind && rng.IntN(2) == 0 {
			m.What = Readdress
		}
	}
	viewer := 1 + rng.IntN(len(g.Viewers))
	seconds := func() time.Duration { return time.Duration((0.2 + 3*rng.Float64()) * float64(time.Second)) }
	for at := seconds(); at < g.length(); at += seconds() {
		g.Mishaps = append(g.Mishaps, Mishap{At: at, What: Readdress, Viewer: viewer})
	}
}
