package cluster

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/clock"
	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/relay/withdrawn"
)

const (
	// Beat is how often a node says that it is alive, and Lease how long it counts as alive afterwards.
	Beat  = time.Second
	Lease = 3 * time.Second

	// tick is how often a node looks for work that is due.
	tick = 200 * time.Millisecond
	// askAgain is how long a node waits for a snapshot before it asks again.
	askAgain = 2 * time.Second
	// AloneFor is how long a node whose engine is alone goes on with the routes it knows.
	AloneFor = time.Minute
	// maxDirect is how many messages the snapshots for single nodes may take at a time. If they would be more, all get
	// one snapshot.
	maxDirect = 8
)

// Config is the configuration of a Node. Only ID and Card are required.
type Config struct {
	Cluster string // name of the cluster. Default: "sluice"
	ID      string // name of the node
	// Card returns the node's description for the others. It must return at once, and must not call the node.
	Card func() Card
	// RTT returns the measured round-trip time to a node, or 0. Default: it is never known.
	RTT func(node string) time.Duration
	// IsAlive reports whether there are other signs of life of a node than its messages, such as a session with it. It
	// must return at once, and must not call the node. Default: there are none.
	IsAlive func(node string) bool
	// Networks returns how far networks are from this node, for others to send clients here. It must return at once,
	// and must not call the node. Default: the node tells nothing about that.
	Networks func() Networks

	// Withdrawn are the tokens that have no force at any node. The node adds those that others know. Default: an empty
	// list.
	Withdrawn *withdrawn.List

	Logger *slog.Logger // default: slog.Default()
}

func (c Config) withDefaults() Config {
	c.Cluster = cmp.Or(c.Cluster, "sluice")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.RTT == nil {
		c.RTT = func(string) time.Duration { return 0 }
	}
	if c.IsAlive == nil {
		c.IsAlive = func(string) bool { return false }
	}
	if c.Withdrawn == nil {
		c.Withdrawn = withdrawn.New(func() {})
	}
	if c.Networks == nil {
		c.Networks = func() Networks { return nil }
	}
	return c
}

func (c *Config) validate() error {
	if c.Card == nil {
		return errors.New("Card must be set")
	}
	card := c.Card()
	return errors.Join(CheckName("Cluster", c.Cluster), CheckName("ID", c.ID), card.validate())
}

// Node is this process as a member of a cluster. Its methods may be called on any goroutine.
type Node struct {
	speaker
	end   chan struct{}
	ended sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	table    table
	watchers []func(Change)
	absent   time.Time // when the silence of the others last said nothing about them
	alone    time.Time // since when the engine is alone, or all are silent; else zero
}

// Counts is how much a node has sent and received.
type Counts struct {
	Messages  uint64 // sent, of all kinds
	Snapshots uint64 // sent
	Asks      uint64 // sent
	Received  uint64 // messages
	Invalid   uint64 // messages that could not be read
	Refused   uint64 // nodes, routes and lists of networks that did not fit into the table
	Dropped   uint64 // messages that the engine did not take
}

// Join makes a node of a cluster. It closes the engine when it fails, and when the node leaves.
func Join(cfg Config, engine Engine) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	n := &Node{speaker: newSpeaker(cfg, engine), end: make(chan struct{})}
	n.table = newTable(n.tellLocked)
	if err := engine.Subscribe(n.receive, n.subjects.patterns(cfg.ID)...); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.beat(time.Now(), true)
	n.ended.Go(n.run)
	return n, nil
}

// Leave tells the others that the node leaves, and closes the engine. Changes that Watch has reported stay.
func (n *Node) Leave() error { return n.stop(true) }

// Yield closes the engine without a word: another process becomes the node. Until the others hear of that one, at most
// for the time of a lease, they keep this one's routes.
func (n *Node) Yield() error { return n.stop(false) }

func (n *Node) stop(leaves bool) error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	if leaves {
		n.publish(n.subjects.of(kindBye, n.cfg.ID), n.own.state)
	}
	close(n.end)
	n.mu.Unlock()
	n.ended.Wait()
	return n.engine.Close()
}

// Advertise tells the others that this node has a publisher for a namespace.
func (n *Node) Advertise(ns moqt.Namespace) { n.changeOwn(ns, n.own.add) }

// Withdraw is the reverse of Advertise.
func (n *Node) Withdraw(ns moqt.Namespace) { n.changeOwn(ns, n.own.remove) }

func (n *Node) changeOwn(ns moqt.Namespace, change func(string) *changeMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := change(ns.String()); c != nil && !n.closed {
		n.publish(n.subjects.route(n.cfg.ID, ns), c)
	}
}

// TellWithdrawn tells the others about Config.Withdrawn, which has changed. Without that they learn it later.
func (n *Node) TellWithdrawn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.tellWithdrawn()
	}
}

// Watch calls f for each route of other nodes, and from then on for each change. f is called with locks held: it must
// return at once, and must not call the node.
func (n *Node) Watch(f func(Change)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.table.members {
		for text := range m.routes {
			if ns, err := moqt.ParseNamespace(text); err == nil {
				f(Change{Node: m.id, Namespace: ns})
			}
		}
	}
	n.watchers = append(n.watchers, f)
}

// tellLocked tells the watchers about a change.
func (n *Node) tellLocked(c Change) {
	for _, f := range n.watchers {
		f(c)
	}
}

// run works at intervals until the node leaves.
func (n *Node) run() {
	for now := range clock.Every(tick, n.end) {
		n.mu.Lock()
		n.tickLocked(now)
		n.mu.Unlock()
	}
}

func (n *Node) tickLocked(now time.Time) {
	if now.Sub(n.beaten) >= Beat {
		n.beat(now, false)
	}
	if now.Sub(n.toldNear) >= tellNetworks {
		n.tellNetworks(now)
	}
	if n.isCutOffLocked(now) {
		n.absent = now
	}
	if now.Sub(n.absent) > Lease { // else others may be alive although they were not heard
		for _, id := range n.table.expire(now, n.cfg.IsAlive) {
			n.cfg.Logger.Warn("a node of the cluster is dead: nothing was heard of it", "node", id, "for", Lease)
		}
	}
	n.table.recall(now)
	n.ask(now, n.table.members)
	n.answer()
	if !n.tellTaken.IsZero() && !now.Before(n.tellTaken) {
		n.tellWithdrawn()
	}
}

// isCutOffLocked reports whether the silence of the others says nothing about them, as the engine is away, or may not
// have noticed yet that it is. An engine that is alone for long is not cut off from them, nor is one to which all are
// silent for long: they have died, all of them or the only one.
func (n *Node) isCutOffLocked(now time.Time) bool {
	present := n.engine.Present()
	switch {
	case !present && !n.engine.Alone(), present && !n.table.areSilent(now, 2*Beat):
		n.alone = time.Time{}
		return !present
	case n.alone.IsZero():
		n.alone = now
	}
	return now.Sub(n.alone) < AloneFor
}

// receive handles a message.
func (n *Node) receive(subject string, data []byte) {
	k, from, ok := n.subjects.parse(subject)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts.Received++
	err := errors.New("the subject is not one of the cluster's")
	if ok {
		err = n.handleLocked(k, from, subject, data, time.Now())
	}
	if err != nil {
		n.counts.Invalid++
		n.log.Log(slog.LevelWarn, "invalid", "invalid message in the cluster", "node", from, "err", err)
	}
}

// handleLocked handles a message. All that it says about its sender counts for from, which the subject names.
func (n *Node) handleLocked(k kind, from, subject string, data []byte, now time.Time) error {
	if from == n.cfg.ID {
		return n.handleOwnLocked(k, data)
	}
	switch k {
	case kindBeat:
		b, err := decodeBeat(data)
		if err == nil {
			n.handleBeatLocked(from, &b, now)
		}
		return err
	case kindRoute:
		c, ns, err := decodeChange(data)
		if err == nil && subject != n.subjects.route(from, ns) {
			err = errors.New("the namespace is not the subject's")
		}
		if err == nil {
			n.table.change(from, &c, now)
		}
		return err
	case kindSnap:
		p, err := decodePart(data)
		if err == nil {
			n.noteLocked(from, &p.beat)
			n.table.part(from, &p, now)
		}
		return err
	case kindNear:
		m, err := decodeNetworks(data)
		if err == nil {
			n.table.near(from, &m, now)
		}
		return err
	case kindTaken:
		m, err := decodeWithdrawn(data)
		if err == nil {
			err = n.takeWithdrawn(&m)
		}
		return err
	case kindAsk:
		n.wants(from)
		return nil
	case kindBye:
		s, err := decodeState(data)
		if err == nil && n.table.leave(from, s) {
			n.table.members[from].leaves.Log(n.cfg.Logger, logs.Interval, slog.LevelInfo,
				"a node has left the cluster", "node", from)
		}
		return err
	}
	return errors.New("the kind of the message is not known")
}

func (n *Node) handleBeatLocked(from string, b *beat, now time.Time) {
	n.noteLocked(from, b)
	n.compareWithdrawn(b.Withdrawn, now)
	m := n.table.meet(from, b, now)
	if m != nil && b.New {
		n.wants(from)
	}
	if known := n.table.members[from]; m == nil && known != nil && b.Epoch < known.Epoch {
		n.log.Log(slog.LevelInfo, "epoch", "a node of the cluster is ignored, as one with its name has joined later",
			"node", from, "url", b.Card.URL)
	}
}

// noteLocked logs the first message of a life of a node. Of one that has many lives, not all are logged.
func (n *Node) noteLocked(id string, b *beat) {
	line := new(logs.Line)
	if m := n.table.members[id]; m != nil {
		if line = &m.joins; b.Epoch <= m.Epoch {
			return
		}
	} else if len(n.table.members) >= maxMembers {
		return
	}
	line.Log(n.cfg.Logger, logs.Interval, slog.LevelInfo, "a node has joined the cluster",
		"node", id, "region", b.Card.Region, "url", b.Card.URL)
}

// handleOwnLocked handles a message that this node has sent, or another one with its name.
func (n *Node) handleOwnLocked(k kind, data []byte) error {
	if k != kindBeat {
		return nil
	}
	b, err := decodeBeat(data)
	// A process that replaces this one has its URL, too.
	if err == nil && b.Epoch > n.own.Epoch && b.Card.URL != n.cfg.Card().URL {
		n.log.Log(slog.LevelError, "name", "another node of the cluster has the name of this one, and the others hear "+
			"only the one that has joined last; give each node a name of its own (--node)", "node", n.cfg.ID,
			"url", b.Card.URL)
	}
	return err
}

// Describe implements prometheus.Collector.
func (n *Node) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{nodesDesc, routesDesc, engineDesc, messagesDesc, feedRTTDesc, feedTracksDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (n *Node) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	n.mu.Lock()
	alive, own, others := n.table.alive(), len(n.own.routes), 0
	for _, m := range alive {
		others += len(m.routes)
	}
	present, feeds := 0., n.cfg.Card().Feeds
	if n.engine.Present() {
		present = 1
	}
	n.mu.Unlock()
	gauge(nodesDesc, float64(1+len(alive)))
	gauge(routesDesc, float64(own), "this node")
	gauge(routesDesc, float64(others), "other nodes")
	gauge(engineDesc, present)
	for _, f := range feeds {
		gauge(feedRTTDesc, f.RTT.Seconds(), f.From)
		gauge(feedTracksDesc, float64(f.Tracks), f.From)
	}
	s := n.Counts()
	for what, v := range map[string]uint64{
		"sent": s.Messages, "received": s.Received, "invalid": s.Invalid, "refused": s.Refused,
		"dropped": s.Dropped, "asks": s.Asks, "snapshots": s.Snapshots,
	} {
		ch <- prometheus.MustNewConstMetric(messagesDesc, prometheus.CounterValue, float64(v), what)
	}
}

// Status describes the cluster. The nodes are in the order of their names.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	s := Status{Cluster: n.cfg.Cluster, Node: n.cfg.ID, Engine: n.engine.Present()}
	s.Nodes = append(s.Nodes, nodeStatus(n.cfg.ID, n.own.Epoch, n.cfg.Card(), n.own.routes))
	for _, m := range n.table.alive() {
		ns := nodeStatus(m.id, m.Epoch, m.card, m.routes)
		ns.Silent, ns.Pending = now.Sub(m.heard), m.isBehind()
		s.Nodes = append(s.Nodes, ns)
	}
	slices.SortFunc(s.Nodes, func(a, b NodeStatus) int { return strings.Compare(a.ID, b.ID) })
	return s
}

// Counts returns the counters of messages.
func (n *Node) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.counts
	s.Refused = n.table.refused
	return s
}
