package trial

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/bounds"
	"sluice/lab/sim"
	"sluice/media"
	"sluice/moqt"
	"sluice/server/cluster"
)

// Schedule is a service and what happens to it, as data. It follows from a seed, or was made smaller, or is written by
// hand. The zero values of links are perfect ones.
type Schedule struct {
	Seed     uint64   // of what links do to packets, and of all random numbers of the programs
	Order    uint64   // chooses another order of goroutines where that follows from the seed, too
	Upstream [][]int  // of each relay, by its number less one: relays are numbered from 1 on
	Cluster  *Cluster `json:",omitempty"` // the relays find each other, and have no upstream
	Drop     string   `json:",omitempty"` // the relays' drop policy, as of --drop; "": none
	Limits   Limits   `json:",omitzero"`  // of each relay
	Early    float64  `json:",omitempty"` // the share of streams before whose opening a run of a kernel is late
	Paths    []Path   // between relays
	Loopback sim.Link `json:",omitzero"` // between the processes of a relay
	Media    Media    // published at relay 1
	Viewers  []Viewer
	Mishaps  []Mishap
	RTSP     *RTSP `json:",omitempty"` // nil: nobody uses it
}

// Cluster makes relays nodes of a cluster.
type Cluster struct {
	Nodes    []Node // by the number of the relay, less one
	Messages Messages
}

// Node is a relay of a cluster.
type Node struct {
	Name   string
	Region string  `json:",omitempty"`
	Load   float64 `json:",omitempty"`
}

// Path is the link between a relay and one that it subscribes at, or another node.
type Path struct {
	Relay, Upstream int
	Link            sim.Link
}

// Client is how a publisher or a viewer reaches its relay.
type Client struct {
	Scheme  string // moqt or https
	Version moqt.Version
	Link    sim.Link
	Streams int64  `json:",omitempty"` // that the relay may have open at a time; 0: more than there are
	Hasty   bool   `json:",omitempty"` // a publisher that ends leaves as soon as the relay has acknowledged all
	Stays   bool   `json:",omitempty"` // at a process that was replaced; else the client follows its GOAWAY
	Token   string `json:",omitempty"` // whose quota counts, too
}

// Media is the published media, a group after the other.
type Media struct {
	name            string        // of the track; "": the one of the schedule
	Groups, Objects uint64        // Objects counts the objects of a group
	Subgroups       uint64        `json:",omitempty"` // of a group, which take objects in turn; 0: one
	Datagrams       uint64        `json:",omitempty"` // each object of this number is sent as a datagram; 0: none is
	Layers          bool          `json:",omitempty"` // subgroups differ in priority
	Pause           time.Duration // behind each object
	Timeouts        Timeouts      `json:",omitzero"` // which the publisher declares
	Publisher       Client
	Successor       Client
	Successions     []uint64 // groups before which another publisher takes over
	// Restarts are groups before which the publisher is killed without a word, and starts again with group 0: their id
	// is 0, too.
	Restarts  []uint64            `json:",omitempty"`
	Takeovers map[uint64]Takeover `json:",omitempty"` // by group
}

// Viewer is a viewer who joins at a time of the media; 0: before it.
type Viewer struct {
	Number   int // by which mishaps name it
	Relay    int `json:",omitempty"` // 0: the last one
	Joins    time.Duration
	Fetch    bool     `json:",omitempty"` // the beginning of the group in which the viewer joins
	Only     *Groups  `json:",omitempty"` // nil: all
	Timeouts Timeouts `json:",omitzero"`
	Client
}

// Groups are those that a viewer subscribes to.
type Groups struct{ First, Last uint64 }

func (g *Groups) has(group uint64) bool { return group >= g.First && group <= g.Last }

func (g *Groups) filter() *moqt.Filter {
	return &moqt.Filter{
		Type: moqt.FilterAbsoluteRange, Start: moqt.Location{Group: g.First}, EndGroupDelta: g.Last - g.First,
	}
}

// What can happen.
const (
	Kill  = "kill"  // a relay vanishes without a word, and starts again after a time
	Cut   = "cut"   // the link between a relay and its upstream, or another node, loses everything for a time
	Part  = "part"  // the messages of a node of a cluster reach no other node for a time, nor theirs this one
	Leave = "leave" // a viewer leaves
	Pause = "pause" // a viewer wants no objects for a time
	Stall = "stall" // a viewer reads nothing for a time

	Rebind    = "rebind"    // the NAT of a viewer takes another port
	Readdress = "readdress" // a viewer has another address

	Greed  = "greed"  // somebody takes all that a relay allows, for a moment
	Excess = "excess" // somebody sends, and gets at a relay, more bytes than it allows, for a time
	Storm  = "storm"  // a relay and a foreign one, both without a publisher, ask each other for a track

	Upgrade = "upgrade" // another process takes over a relay's port
	Drain   = "drain"   // a relay sends its clients to another one, and ends
)

// Mishap is something that happens at a time of the media.
type Mishap struct {
	At              time.Duration
	What            string
	Relay, Upstream int `json:",omitempty"` // of the relay; of Cut, the upstream; of Drain, where to
	Viewer          int `json:",omitempty"` // of Rebind, Readdress, Leave, Pause and Stall
	// Lasts is of Kill, Part, Cut, Pause, Stall and Excess; of Upgrade, until the process is ready.
	Lasts   time.Duration `json:",omitempty"`
	Crashes bool          `json:",omitempty"` // of Upgrade: the new process does when it is ready
	Talk    Talk          `json:",omitzero"`  // of Upgrade
	Token   bool          `json:",omitempty"` // of Greed and Excess: from several addresses, with a token
}

// dropPolicies are the values of Drop.
var dropPolicies = map[string]func() media.DropPolicy{
	"":         nil,
	"bytes":    func() media.DropPolicy { return new(media.Budget) },
	"priority": func() media.DropPolicy { return new(media.PriorityDrop) },
}

// shapes are the relays that schedules of seeds have.
var shapes = [][][]int{
	{nil},                   // one relay
	{nil, {1}, {2}},         // a chain of three
	{nil, {1}, {1}, {2, 3}}, // two ways
}

// last returns the last relay.
func (s *Schedule) last() int { return len(s.Upstream) }

// relayOf returns the relay of a viewer.
func (s *Schedule) relayOf(v *Viewer) int { return cmp.Or(v.Relay, s.last()) }

// hasClients reports whether the publisher or a viewer is at a relay.
func (s *Schedule) hasClients(relay int) bool {
	return relay == 1 || slices.ContainsFunc(s.Viewers, func(v Viewer) bool { return s.relayOf(&v) == relay }) ||
		s.RTSP.isAt(relay)
}

// length returns how long the media takes, if nothing delays it.
func (s *Schedule) length() time.Duration {
	return time.Duration(s.Media.Groups*s.Media.Objects) * s.Media.Pause
}

// rest returns how long to wait after the media for all that is on its way. Links that carry less than the media may
// have most of it before them.
func (s *Schedule) rest() time.Duration {
	rest := 20 * time.Second
	if s.Drop != "" || slices.ContainsFunc(s.Viewers, func(v Viewer) bool { return v.Link.Rate > 0 }) {
		rest += time.Duration(float64(s.length()) / leastRate)
	}
	return rest
}

// carried returns how much a socket behind a kernel may lose, if there are guests: no more than their links, were these
// as long as the longest between relays.
func (s *Schedule) carried() float64 {
	if s.RTSP == nil {
		return 0
	}
	var longest time.Duration
	for _, p := range s.Paths {
		longest = max(longest, p.Link.Delay)
	}
	return carries(longest)
}

// spare returns the relays that may be killed: they have no clients, and of each relay that subscribes at one of them,
// another upstream can take its place.
func (s *Schedule) spare() (relays []int) {
	for relay := 2; relay <= s.last(); relay++ {
		only := func(upstream []int) bool { return slices.Equal(upstream, []int{relay}) }
		if !s.hasClients(relay) && !slices.ContainsFunc(s.Upstream, only) {
			relays = append(relays, relay)
		}
	}
	return relays
}

// Validate names the fault of a schedule that may be written by hand.
func (s *Schedule) Validate() error {
	err := errors.Join(bounds.Check("relays", len(s.Upstream), 1, firstClient-1),
		bounds.Check("Groups", s.Media.Groups, 1, 10_000), bounds.Check("Objects", s.Media.Objects, 1, 10_000),
		bounds.Check("Viewers", len(s.Viewers), 1, 100))
	for i, upstream := range s.Upstream {
		for _, u := range upstream {
			err = errors.Join(err, bounds.Check("Upstream", u, 1, i)) // of an earlier relay
		}
	}
	for _, v := range s.Viewers {
		err = errors.Join(err, bounds.Check("Relay of a viewer", v.Relay, 0, s.last()))
	}
	err = errors.Join(err, bounds.OneOf("Drop", s.Drop, slices.Sorted(maps.Keys(dropPolicies))...))
	err = errors.Join(err, s.validateCluster())
	for _, m := range s.Mishaps {
		if err == nil && !s.has(m) {
			err = fmt.Errorf("mishap: %+v: must be during the media, and of a relay that others can replace, "+
				"of a link, of a node, or of a viewer", m)
		}
	}
	return err
}

// validateCluster names the fault of the nodes of a cluster.
func (s *Schedule) validateCluster() (err error) {
	if s.Cluster == nil {
		return nil
	}
	for _, upstream := range s.Upstream {
		err = errors.Join(err, bounds.Check("Upstream of a node", len(upstream), 0, 0))
	}
	err = errors.Join(err, bounds.Check("nodes", len(s.Cluster.Nodes), s.last(), s.last()))
	names := make(map[string]bool)
	for _, n := range s.Cluster.Nodes {
		err = errors.Join(err, cluster.CheckName("node", n.Name))
		if names[n.Name] {
			err = errors.Join(err, fmt.Errorf("node: %s: must be the name of one node", n.Name))
		}
		names[n.Name] = true
	}
	return err
}

// generator makes a schedule of a seed.
type generator struct {
	*Schedule
	rng   *rand.Rand
	nodes *rand.Rand   // for what only clusters have
	homes []int        // the nodes that viewers join
	parts bool         // nodes are cut from the others' messages
	gone  map[int]bool // viewers who have left
}

// NewSchedule returns the schedule of a seed.
func NewSchedule(seed uint64) *Schedule {
	g := &generator{
		Schedule: &Schedule{Seed: seed, Order: seed}, rng: numbers(seed, 1), nodes: numbers(seed, 1<<33),
		gone: make(map[int]bool),
	}
	g.Upstream = shapes[g.rng.IntN(len(shapes))]
	g.Media.Objects, g.Media.Groups = 20+g.rng.Uint64N(30), 10+g.rng.Uint64N(10)
	seldom(g, 59, 12, brief)
	for i, upstream := range g.Upstream {
		for _, u := range upstream {
			delay := time.Duration(1+g.rng.IntN(20)) * time.Millisecond
			g.Paths = append(g.Paths, Path{i + 1, u, sim.Link{Delay: delay, Jitter: delay / 5, Loss: 0.002}})
		}
	}
	if g.nodes.IntN(5) == 0 {
		g.cluster()
	}
	g.Media.Publisher = g.client(sim.Link{Delay: 20 * time.Millisecond, Loss: 0.03})
	for range 1 + g.rng.IntN(3) {
		g.view(0)
	}
	g.successions(numbers(g.rng.Uint64(), 2))
	if g.parts { // a node might hear that the publisher has left, and hear of the next one too late
		g.Media.Successions = nil
	}
	g.mishaps()
	if g.parts { // a node that lacks its parent may not hear of another way in time
		g.Mishaps = slices.DeleteFunc(g.Mishaps, func(m Mishap) bool { return m.What == Kill })
	}
	g.kinds(numbers(seed, 3))
	g.Media.Successor.speak(numbers(seed, 8))
	seldom(g, 4, 4, (*generator).narrow)
	seldom(g, 5, 3, (*generator).choosy)
	if seldom(g, 6, 3, (*generator).upgrades) {
		handovers(g, numbers(seed, 71))
		talks(g, numbers(seed, 337))
	} else {
		g.rare(numbers(seed, 7))
	}
	seldom(g, 29, 8, (*generator).takeovers)
	seldom(g, 47, 8, (*generator).hurry)
	seldom(g, 137, 8, (*generator).restrict)
	seldom(g, 223, 3, (*generator).guests)
	if g.Limits.Sessions > 0 && g.RTSP == nil {
		ration(g)
		exceed(g, numbers(seed, 331))
	}
	calm(g)
	seldom(g, 283, 12, brew)
	seldom(g, 401, 4, roam)
	return g.Schedule
}

// numbers returns the random numbers of a seed for one purpose.
func numbers(seed, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

// seldom chooses something for one of n seeds, with random numbers of its own.
func seldom(g *generator, purpose uint64, n int, choose func(*generator, *rand.Rand)) bool {
	rng := numbers(g.Seed, purpose)
	if rng.IntN(n) > 0 {
		return false
	}
	choose(g, rng)
	return true
}

// cluster makes the relays a cluster of three to seven nodes in one to three regions, all of which have links.
func (g *generator) cluster() {
	n, regions := 3+g.nodes.IntN(5), 1+g.nodes.IntN(3)
	g.Upstream, g.Cluster, g.Paths = make([][]int, n), new(Cluster), nil
	names := g.nodes.Perm(26)[:n] // they decide who is whose parent
	where := make([]int, n)
	for i := range n {
		where[i] = g.nodes.IntN(regions)
		node := Node{Name: string(rune('a' + names[i])), Region: string(rune('A' + where[i]))}
		if g.nodes.IntN(4) == 0 {
			node.Load = g.nodes.Float64()
		}
		g.Cluster.Nodes = append(g.Cluster.Nodes, node)
		for other := range i {
			delay := time.Duration(1+g.nodes.IntN(8)) * time.Millisecond
			if where[other] != where[i] {
				delay *= 8
			}
			g.Paths = append(g.Paths, Path{i + 1, other + 1, sim.Link{Delay: delay, Jitter: delay / 5, Loss: 0.002}})
		}
	}
	for _, i := range g.nodes.Perm(n - 1)[:1+g.nodes.IntN(n-2)] { // not all: some may be killed
		g.homes = append(g.homes, i+2)
	}
	if g.nodes.IntN(3) == 0 {
		g.homes = append(g.homes, 1)
	}
	g.Cluster.Messages, g.parts = g.messages(), g.nodes.IntN(2) == 0
}

// messages chooses how messages of a cluster travel.
func (g *generator) messages() Messages {
	m := Messages{
		Servers: g.nodes.IntN(4) == 0,
		Delay:   time.Duration(1+g.nodes.IntN(80)) * time.Millisecond,
		Jitter:  time.Duration(g.nodes.IntN(20)) * time.Millisecond,
	}
	switch g.nodes.IntN(4) {
	case 0:
		m.Loss = 0.03 * g.nodes.Float64()
	case 1:
		m.Slow = 0.1 * g.nodes.Float64()
	case 2:
		m.Duplicate = 0.1
	}
	return m
}

func (g *generator) client(l sim.Link) Client {
	c := Client{Link: l}
	c.speak(g.rng)
	return c
}

// speak chooses the transport and the draft.
func (c *Client) speak(rng *rand.Rand) {
	c.Scheme, c.Version = []string{"moqt", "https"}[rng.IntN(2)], moqt.Versions()[rng.IntN(len(moqt.Versions()))]
}

// successions chooses the pace of the media, and when another publisher takes over.
func (g *generator) successions(rng *rand.Rand) {
	m := &g.Media
	m.Pause = time.Duration(10+rng.IntN(40)) * time.Millisecond
	m.Successor = Client{Link: sim.Link{Delay: 15 * time.Millisecond, Loss: 0.03}}
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

// leastRate and mostRate are how much of the media the links of viewers carry.
const leastRate, mostRate = 0.3, 1.5

// narrow has relays drop what links do not carry.
func (g *generator) narrow(rng *rand.Rand) {
	g.Drop = []string{"bytes", "priority"}[rng.IntN(2)]
	g.Media.Layers = rng.IntN(4) > 0
	g.squeeze(rng)
}

// squeeze chooses how much of the media the links of viewers carry: less than it takes, or little more.
func (g *generator) squeeze(rng *rand.Rand) {
	rate := float64(g.Media.mostBytes(moqt.Location{})/2+100) / g.Media.Pause.Seconds()
	for i := range g.Viewers {
		if l := &g.Viewers[i].Link; rng.IntN(3) > 0 {
			l.Rate = int(rate * (leastRate + (mostRate-leastRate)*rng.Float64()))
			packets := 5 + rng.IntN(30)
			l.Queue = time.Duration(packets) * 1250 * time.Second / time.Duration(l.Rate)
		}
	}
}

// choosy has viewers want some groups only, or none for a time.
func (g *generator) choosy(rng *rand.Rand) {
	for i := range g.Viewers {
		v := &g.Viewers[i]
		switch rng.IntN(3) {
		case 0:
			at, lasts := time.Duration(rng.Int64N(int64(g.length()))), time.Duration(rng.Int64N(int64(5*time.Second)))
			g.Mishaps = append(g.Mishaps, Mishap{At: at, What: Pause, Viewer: v.Number, Lasts: lasts})
		case 1:
			if v.Joins == 0 {
				first := rng.Uint64N(g.Media.Groups)
				v.Only, v.Fetch = &Groups{first, first + rng.Uint64N(g.Media.Groups-first)}, false
			}
		}
	}
}

// upgrades has other processes take over the ports of relays, 5 s after each other or later, and chooses which clients
// stay then. Viewers who want some groups only do, and those with narrow links: a player there would not fetch all that
// it lacks.
func (g *generator) upgrades(rng *rand.Rand) {
	for now := g.length().Seconds() * rng.Float64(); now < g.length().Seconds(); now += 5 + 10*rng.Float64() {
		at := time.Duration(now * float64(time.Second))
		relay := []int{1, g.last(), 1 + rng.IntN(g.last())}[rng.IntN(3)]
		g.Mishaps = append(g.Mishaps, Mishap{At: at, What: Upgrade, Relay: relay})
	}
	for i := range g.Viewers {
		v := &g.Viewers[i]
		v.Stays = rng.IntN(3) == 0 || v.Only != nil || v.Link.Rate > 0
	}
	g.Media.Publisher.Stays, g.Media.Successor.Stays = rng.IntN(3) == 0, rng.IntN(3) == 0
}

// handovers has some processes take their time until they are ready, or crash then, and links between processes lose
// packets, as sockets do that are read too late, and be cut.
func handovers(g *generator, rng *rand.Rand) {
	span := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	g.Loopback = sim.Link{Delay: span(2 * time.Millisecond), Loss: 0.02 * rng.Float64()}
	for i := range g.Mishaps {
		m := g.Mishaps[i]
		if m.What != Upgrade {
			continue
		}
		if rng.IntN(2) == 0 {
			g.Mishaps[i].Lasts, g.Mishaps[i].Crashes = 1+span(4*time.Second), rng.IntN(3) == 0
		}
		if rng.IntN(3) == 0 {
			at := min(m.At+span(8*time.Second), g.length())
			cut := Mishap{At: at, What: Cut, Relay: m.Relay, Upstream: m.Relay, Lasts: 1 + span(2*time.Second)}
			g.Mishaps = append(g.Mishaps, cut)
		}
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
	v := Viewer{Number: len(g.Viewers) + 1, Joins: joins, Client: c}
	if g.Cluster != nil {
		v.Relay = g.homes[g.nodes.IntN(len(g.homes))]
	}
	g.Viewers = append(g.Viewers, v)
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
	spare := slices.DeleteFunc(g.spare(), func(relay int) bool { return slices.Contains(g.homes, relay) })
	if len(spare) == 0 {
		return 0
	}
	m := Mishap{At: now, What: Kill, Relay: spare[g.rng.IntN(len(spare))]}
	m.Lasts = g.between(500*time.Millisecond, 4*time.Second)
	g.Mishaps = append(g.Mishaps, m)
	return m.Lasts + 5*time.Second
}

// cut cuts the link between two relays for a moment, or a node of a cluster from the others' messages for longer.
func (g *generator) cut(now time.Duration) time.Duration {
	if g.parts && g.nodes.IntN(2) == 0 {
		m := Mishap{At: now, What: Part, Relay: 1 + g.nodes.IntN(g.last())}
		m.Lasts = g.between(500*time.Millisecond, 12*time.Second)
		g.Mishaps = append(g.Mishaps, m)
		return 0 // other things happen meanwhile
	}
	if g.Cluster != nil {
		p := g.Paths[g.nodes.IntN(len(g.Paths))]
		m := Mishap{At: now, What: Cut, Relay: p.Relay, Upstream: p.Upstream}
		m.Lasts = g.between(50*time.Millisecond, 1500*time.Millisecond)
		g.Mishaps = append(g.Mishaps, m)
		return m.Lasts
	}
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
