package trial

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sluice/server/cluster"
	"sluice/server/cluster/clustertest"
)

const (
	// An engine takes this long, as natsengine does, to find that a connection is dead which carries nothing.
	leastFound, mostFound = 4 * time.Second, 6 * time.Second
	// An engine tries for so long, at most, to reach the others again.
	mostReconnect = time.Second
	// slowFor is how much longer a slow message takes.
	slowFor = time.Second
)

// Messages says how the messages of a cluster travel: what its nodes tell each other about themselves.
type Messages struct {
	// Servers: the operator has NATS servers, with which each node has a connection. Else each node has a server, which
	// has connections with all others, so that it can be alone.
	Servers       bool
	Delay, Jitter time.Duration
	Loss          float64 // the probability that a message does not reach a node
	Slow          float64 // that it takes a second more; what the same node sends later comes behind it
	Duplicate     float64 // that it comes twice, one time behind the other
}

// bus carries the messages of a cluster, as package natsengine does: at most once but for duplicates, and in the order
// in which a node sent them. While a node is cut off, TCP keeps its messages, until the connection is found to be dead.
type bus struct {
	kind Messages

	mu    sync.Mutex
	rng   *rand.Rand
	nodes []busNode // by the number of the relay, less one
	held  []parcel  // on a connection that carries nothing now
	order uint64    // of the last parcel
}

// busNode is what the bus knows of a node.
type busNode struct {
	engine *busEngine // of the process that runs; nil: none does
	state  connection
	cuts   int         // counts what has happened to the connection
	last   []time.Time // when the last message of each node arrives
}

// connection is the connection of a node with all others, or with the servers.
type connection int

const (
	broken    connection = iota // messages get lost
	silent                      // it carries nothing, and nobody has noticed
	connected                   // it works
)

// parcel is a message to one node.
type parcel struct {
	from, to int
	at       time.Time // when it arrives
	order    uint64    // among those that arrive at the same time
	subject  string
	data     []byte
}

func newBus(seed uint64, nodes int, kind Messages) *bus {
	b := &bus{kind: kind, rng: rand.New(rand.NewPCG(seed, 1<<32)), nodes: make([]busNode, nodes)}
	for i := range b.nodes {
		b.nodes[i].last = make([]time.Time, nodes)
	}
	return b
}

// engine returns the engine of a process that becomes a node. It has no connections yet.
func (b *bus) engine(number int) cluster.Engine {
	e := &busEngine{bus: b, number: number, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[number-1]
	n.engine = e
	if n.state == broken {
		b.reconnectLocked(n)
	}
	return e
}

// reconnectLocked connects a node with the others after a while.
func (b *bus) reconnectLocked(n *busNode) {
	n.cuts++
	cuts := n.cuts
	time.AfterFunc(time.Duration(b.rng.Int64N(int64(mostReconnect))), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if n.cuts == cuts {
			n.state = connected
		}
	})
}

// kill has the engine of a node say nothing more. It does not know.
func (b *bus) kill(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[number-1]
	n.engine = nil
	n.state = broken
	n.cuts++
}

// replace has another process become a node. If that has a server, it connects with the others anew.
func (b *bus) replace(number int) {
	if !b.kind.Servers {
		b.kill(number)
	}
}

// cut has the connection of a node carry nothing, until heal. After some time that is noticed.
func (b *bus) cut(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[number-1]
	n.cuts++
	if n.state == broken {
		return
	}
	n.state = silent
	cuts, found := n.cuts, leastFound+time.Duration(b.rng.Int64N(int64(mostFound-leastFound)))
	time.AfterFunc(found, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if n.cuts == cuts {
			n.state = broken
			b.releaseLocked()
		}
	})
}

// heal ends a cut.
func (b *bus) heal(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch n := &b.nodes[number-1]; n.state {
	case silent:
		n.cuts++
		n.state = connected
		b.releaseLocked()
	case broken:
		b.reconnectLocked(n)
	}
}

// releaseLocked sends the held messages of nodes whose connection works again. Messages of broken connections are lost.
func (b *bus) releaseLocked() {
	held := b.held
	b.held = nil
	for _, p := range held {
		b.sendLocked(p)
	}
}

// sendLocked puts a message on its way.
func (b *bus) sendLocked(p parcel) {
	from, to := &b.nodes[p.from-1], &b.nodes[p.to-1]
	switch {
	case from.state == broken || to.state == broken:
	case from.state == silent || to.state == silent:
		b.held = append(b.held, p)
	case b.happensLocked(b.kind.Loss):
	default:
		b.arriveLocked(p)
		if b.happensLocked(b.kind.Duplicate) {
			b.arriveLocked(p)
		}
	}
}

// arriveLocked has a message arrive after a while, behind those that its sender has sent before.
func (b *bus) arriveLocked(p parcel) {
	to := &b.nodes[p.to-1]
	if to.engine == nil {
		return
	}
	p.at = time.Now().Add(b.kind.Delay)
	if j := int64(b.kind.Jitter); j > 0 {
		p.at = p.at.Add(time.Duration(b.rng.Int64N(j)))
	}
	if b.happensLocked(b.kind.Slow) {
		p.at = p.at.Add(slowFor)
	}
	if last := to.last[p.from-1]; p.at.Before(last) {
		p.at = last
	}
	to.last[p.from-1] = p.at
	b.order++
	p.order = b.order
	to.engine.takeLocked(p)
}

func (b *bus) happensLocked(probability float64) bool {
	return probability > 0 && b.rng.Float64() < probability
}

// busEngine is the engine of a node. It implements cluster.Engine. The bus' mutex guards it.
type busEngine struct {
	bus      *bus
	number   int
	patterns []string
	inbox    []parcel // in the order of their arrival
	wake     chan struct{}
	end      sync.Once
	closed   chan struct{}
	running  sync.WaitGroup
}

// nodeLocked returns the node, and reports whether this is the engine of the process that runs.
func (e *busEngine) nodeLocked() (n *busNode, runs bool) {
	n = &e.bus.nodes[e.number-1]
	return n, n.engine == e
}

// Publish implements cluster.Engine.
func (e *busEngine) Publish(subject string, data []byte) error {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	if _, runs := e.nodeLocked(); !runs {
		return nil // it gets lost
	}
	for i := range e.bus.nodes {
		if i+1 != e.number {
			e.bus.sendLocked(parcel{from: e.number, to: i + 1, subject: subject, data: data})
		}
	}
	return nil
}

// takeLocked takes a message that arrives later, if the node has subscribed to it.
func (e *busEngine) takeLocked(p parcel) {
	if !slices.ContainsFunc(e.patterns, func(pattern string) bool { return clustertest.Matches(pattern, p.subject) }) {
		return
	}
	at, _ := slices.BinarySearchFunc(e.inbox, p, func(a, b parcel) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order))
	})
	e.inbox = slices.Insert(e.inbox, at, p)
	select {
	case e.wake <- struct{}{}:
	default: // it will look
	}
}

// Subscribe implements cluster.Engine.
func (e *busEngine) Subscribe(f func(subject string, data []byte), patterns ...string) error {
	e.bus.mu.Lock()
	e.patterns = patterns
	e.bus.mu.Unlock()
	e.running.Go(func() { e.deliver(f) })
	return nil
}

// deliver delivers messages when they arrive.
func (e *busEngine) deliver(f func(subject string, data []byte)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-e.closed:
			return
		case <-e.wake:
		case <-timer.C:
		}
		for {
			p, wait, ok := e.next()
			if !ok {
				timer.Reset(wait)
				break
			}
			f(p.subject, p.data)
		}
	}
}

// next returns a message that has arrived, or how long the next one takes.
func (e *busEngine) next() (p parcel, wait time.Duration, ok bool) {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	if _, runs := e.nodeLocked(); !runs || len(e.inbox) == 0 {
		return p, time.Hour, false
	}
	if wait = time.Until(e.inbox[0].at); wait > 0 {
		return p, wait, false
	}
	p = e.inbox[0]
	e.inbox = slices.Delete(e.inbox, 0, 1)
	return p, 0, true
}

// Present implements cluster.Engine.
func (e *busEngine) Present() bool {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	n, _ := e.nodeLocked()
	return n.state != broken && !e.isAloneLocked()
}

// Alone implements cluster.Engine.
func (e *busEngine) Alone() bool {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	return e.isAloneLocked()
}

// isAloneLocked reports whether a server of this node has no connection with another one. The connections with a node
// that was killed end at once.
func (e *busEngine) isAloneLocked() bool {
	if n, _ := e.nodeLocked(); e.bus.kind.Servers || n.state == broken {
		return !e.bus.kind.Servers
	}
	return !slices.ContainsFunc(e.bus.nodes, func(n busNode) bool {
		return n.engine != nil && n.engine != e && n.state != broken
	})
}

// Close implements cluster.Engine.
func (e *busEngine) Close() error {
	e.bus.mu.Lock()
	if n, runs := e.nodeLocked(); runs {
		n.engine = nil
	}
	e.bus.mu.Unlock()
	e.end.Do(func() { close(e.closed) })
	e.running.Wait()
	return nil
}
