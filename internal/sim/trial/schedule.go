package trial

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/bounds"
	"sluice/internal/sim"
	"sluice/moqt"
)

// Schedule is a service and what happens to it, as data. It follows from a seed, or was made smaller, or is written by
// hand. The zero values of links are perfect ones.
type Schedule struct {
	Seed     uint64   // of what links do to packets, and of all random numbers of the programs
	Order    uint64   // chooses another order of goroutines where that follows from the seed, too
	Upstream [][]int  // of each relay, by its number less one: relays are numbered from 1 on
	Paths    []Path   // between relays
	Media    Media    // what is published at relay 1
	Viewers  []Viewer // at the last relay
	Mishaps  []Mishap
}

// Path is the link between a relay and one that it subscribes at.
type Path struct {
	Relay, Upstream int
	Link            sim.Link
}

// Client is how a publisher or a viewer reaches its relay.
type Client struct {
	Scheme  string // moqt or https
	Version moqt.Version
	Link    sim.Link
}

// Media is what is published, a group after the other.
type Media struct {
	Groups, Objects uint64        // Objects are those of a group
	Subgroups       uint64        `json:",omitempty"` // of a group, which take objects in turn; 0: one
	Datagrams       uint64        `json:",omitempty"` // each object of this number is sent as a datagram; 0: none is
	Pause           time.Duration // behind each object
	Publisher       Client
	Successor       Client
	Successions     []uint64 // groups before which another publisher takes the place of the one before
}

// Viewer is a viewer who joins at a time of the media; 0: before it.
type Viewer struct {
	Number int // by which mishaps name it
	Joins  time.Duration
	Fetch  bool `json:",omitempty"` // the beginning of the group in which the viewer joins
	Client
}

// What can happen.
const (
	Kill   = "kill"   // a relay vanishes without a word, and starts again after a time
	Cut    = "cut"    // the link between a relay and its upstream loses everything for a time
	Rebind = "rebind" // the NAT of a viewer takes another port
	Leave  = "leave"  // a viewer leaves
)

// Mishap is something that happens at a time of the media.
type Mishap struct {
	At              time.Duration
	What            string
	Relay, Upstream int           `json:",omitempty"` // of Kill, and of Cut
	Viewer          int           `json:",omitempty"` // of Rebind and Leave
	Lasts           time.Duration `json:",omitempty"` // of Kill and Cut
}

// shapes are the relays that schedules of seeds have.
var shapes = [][][]int{
	{nil},                   // one relay
	{nil, {1}, {2}},         // a chain of three
	{nil, {1}, {1}, {2, 3}}, // two ways
}

// last returns the relay of the viewers.
func (s *Schedule) last() int { return len(s.Upstream) }

// length returns how long the media takes, if nothing delays it.
func (s *Schedule) length() time.Duration {
	return time.Duration(s.Media.Groups*s.Media.Objects) * s.Media.Pause
}

// spare returns the relays that may be killed: of each relay that subscribes at one of them, another upstream can take
// its place.
func (s *Schedule) spare() (relays []int) {
	for relay := 2; relay < s.last(); relay++ {
		if !slices.ContainsFunc(s.Upstream, func(up []int) bool { return slices.Equal(up, []int{relay}) }) {
			relays = append(relays, relay)
		}
	}
	return relays
}

// Validate says what is wrong with a schedule that may be written by hand.
func (s *Schedule) Validate() error {
	err := errors.Join(bounds.Check("relays", len(s.Upstream), 1, firstClient-1),
		bounds.Check("Groups", s.Media.Groups, 1, 10_000), bounds.Check("Objects", s.Media.Objects, 1, 10_000),
		bounds.Check("Viewers", len(s.Viewers), 1, 100))
	for i, upstream := range s.Upstream {
		for _, u := range upstream {
			err = errors.Join(err, bounds.Check("Upstream", u, 1, i)) // of an earlier relay
		}
	}
	for _, m := range s.Mishaps {
		if err == nil && !s.has(m) {
			err = fmt.Errorf("mishap: %+v: must be during the media, and of a relay that others can replace, "+
				"of a link, or of a viewer", m)
		}
	}
	return err
}

// generator makes a schedule of a seed.
type generator struct {
	*Schedule
	rng  *rand.Rand
	gone map[int]bool // viewers who have left
}

// NewSchedule returns the schedule of a seed.
func NewSchedule(seed uint64) *Schedule {
	g := &generator{&Schedule{Seed: seed, Order: seed}, rand.New(rand.NewPCG(seed, 1)), make(map[int]bool)}
	g.Upstream = shapes[g.rng.IntN(len(shapes))]
	g.Media.Objects, g.Media.Groups = 20+g.rng.Uint64N(30), 10+g.rng.Uint64N(10)
	for i, upstream := range g.Upstream {
		for _, u := range upstream {
			delay := time.Duration(1+g.rng.IntN(20)) * time.Millisecond
			g.Paths = append(g.Paths, Path{i + 1, u, sim.Link{Delay: delay, Jitter: delay / 5, Loss: 0.002}})
		}
	}
	g.Media.Publisher = g.client(sim.Link{Delay: 20 * time.Millisecond, Loss: 0.03})
	for range 1 + g.rng.IntN(3) {
		g.view(0)
	}
	g.successions(rand.New(rand.NewPCG(g.rng.Uint64(), 2)))
	g.mishaps()
	g.kinds(rand.New(rand.NewPCG(seed, 3)))
	return g.Schedule
}

func (g *generator) client(l sim.Link) Client {
	scheme := []string{"moqt", "https"}[g.rng.IntN(2)]
	return Client{scheme, moqt.Versions()[g.rng.IntN(len(moqt.Versions()))], l}
}

// successions chooses the pace of the media, and when another publisher takes the place of the one before.
func (g *generator) successions(rng *rand.Rand) {
	m := &g.Media
	m.Pause = time.Duration(10+rng.IntN(40)) * time.Millisecond
	newest := moqt.Versions()[len(moqt.Versions())-1]
	m.Successor = Client{"moqt", newest, sim.Link{Delay: 15 * time.Millisecond, Loss: 0.03}}
	for group := uint64(1); group < m.Groups; group++ {
		if rng.IntN(6) == 0 {
			m.Successions = append(m.Successions, group)
		}
	}
}

// kinds chooses how objects are sent, and who fetches some.
func (g *generator) kinds(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		g.Media.Subgroups = 2 + rng.Uint64N(3)
	}
	if rng.IntN(2) == 0 {
		g.Media.Datagrams = 2 + rng.Uint64N(8)
	}
	for i := range g.Viewers {
		g.Viewers[i].Fetch = rng.IntN(2) == 0
	}
}

// access chooses the link of a client: between a good one and a bad mobile one.
func (g *generator) access() sim.Link {
	l := sim.Link{
		Delay:  time.Duration(1+g.rng.IntN(120)) * time.Millisecond,
		Jitter: time.Duration(g.rng.IntN(10)) * time.Millisecond,
	}
	switch g.rng.IntN(4) {
	case 0:
		l.Loss = 0.05 * g.rng.Float64()
	case 1:
		l.Burst = sim.Burst{Begin: 0.003, End: 0.2, Loss: 0.7, Lasts: 500 * time.Millisecond}
	case 2:
		l.Duplicate, l.Corrupt = 0.02, 0.01
	}
	return l
}

// between chooses a time between two.
func (g *generator) between(least, most time.Duration) time.Duration {
	return least + time.Duration(g.rng.Int64N(int64(most-least)))
}

// view adds a viewer.
func (g *generator) view(joins time.Duration) {
	c := g.client(sim.Link{})
	c.Link = g.access()
	g.Viewers = append(g.Viewers, Viewer{Number: len(g.Viewers) + 1, Joins: joins, Client: c})
}

// mishaps has something happen now and then, until the media is over.
func (g *generator) mishaps() {
	for now := g.between(time.Second, 5*time.Second); now < g.length(); now += g.between(time.Second, 5*time.Second) {
		switch g.rng.IntN(5) {
		case 0:
			now += g.killOne(now)
		case 1:
			now += g.cut(now)
		case 2:
			if n := g.one(); n != 0 {
				g.Mishaps = append(g.Mishaps, Mishap{At: now, What: Rebind, Viewer: n})
			}
		case 3:
			g.view(now)
		case 4:
			if n := g.one(); n > 1 { // the first one stays
				g.gone[n] = true
				g.Mishaps = append(g.Mishaps, Mishap{At: now, What: Leave, Viewer: n})
			}
		}
	}
}

// killOne kills a relay whose place another one can take, and returns when another one may be next.
func (g *generator) killOne(now time.Duration) time.Duration {
	spare := g.spare()
	if len(spare) == 0 {
		return 0
	}
	m := Mishap{At: now, What: Kill, Relay: spare[g.rng.IntN(len(spare))]}
	m.Lasts = g.between(500*time.Millisecond, 4*time.Second)
	g.Mishaps = append(g.Mishaps, m)
	return m.Lasts + 5*time.Second
}

// cut cuts the link between two relays for a moment.
func (g *generator) cut(now time.Duration) time.Duration {
	if g.last() == 1 {
		return 0
	}
	m := Mishap{At: now, What: Cut, Relay: 2 + g.rng.IntN(g.last()-1)}
	m.Upstream, m.Lasts = g.Upstream[m.Relay-1][0], g.between(50*time.Millisecond, 1500*time.Millisecond)
	g.Mishaps = append(g.Mishaps, m)
	return m.Lasts
}

// one chooses a viewer who has not left, or returns 0.
func (g *generator) one() int {
	if n := 1 + g.rng.IntN(len(g.Viewers)); !g.gone[n] {
		return n
	}
	return 0
}
