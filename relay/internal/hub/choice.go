package hub

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/relay/internal/fetch"
)

const (
	// retryDelay is how long the relay waits before it subscribes again at a publisher that refused or ended a
	// subscription, while there are others.
	retryDelay = time.Second
	// Neighbours that had no publisher for a track are asked again after firstAsk, and each time after twice as long,
	// at most lastAsk.
	firstAsk = 250 * time.Millisecond
	lastAsk  = 8 * time.Second
	// awakeTimeout is how long other processes may take to answer a probe before an object is asked of others first.
	awakeTimeout = 250 * time.Millisecond
)

// choice chooses where the relay subscribes to a track: at all publishers of this process, and at the nearest
// neighbours if there are none. All methods but sources and presentSources expect Hub.mu to be held.
type choice struct {
	hub        *Hub
	retry      map[*Peer]time.Time // when to subscribe again at peers whose subscription ended
	refused    map[*Peer]time.Time // when neighbours were asked last that had no publisher then
	connecting bool                // one of them may be connected soon, and none is
	asking     *time.Timer         // runs before they are asked to wait
	asked      int                 // how often they were, since a publisher was there
	surplus    *time.Timer         // runs while subscriptions are kept that are not needed any more
}

// subscribe subscribes at publishers of this process, unless there are subscriptions already, and then at neighbours,
// if subscribers need them.
func (c *choice) subscribe(peers ...*Peer) {
	again := !c.hub.publishers.areEstablished()
	for _, p := range peers {
		if again || !c.isResting(p) {
			c.start(p, nil)
		}
	}
	c.ask()
}

// start begins a subscription at a peer, unless there is one, or no subscriber may use the peer. rendezvous is the
// RENDEZVOUS_TIMEOUT, or nil.
func (c *choice) start(p *Peer, rendezvous *uint64) {
	h := c.hub
	if h.publishers.of[p] != nil || p.isExcluded(h) {
		return
	}
	path, ok := h.subscribers.pathTo(p)
	if !ok {
		return
	}
	u := newUpstream(h, p)
	u.rendezvous, u.asked = rendezvous, path
	u.forward = true // whatever the subscribers say (draft §9.2), unless they are in reserve
	u.forward = h.demand.forward(u)
	u.group = h.demand.group
	h.publishers.of[p] = u
	h.directory.Tasks.Go(u.subscribe)
}

// rest notes that a subscription at a peer has ended.
func (c *choice) rest(p *Peer) {
	now := time.Now()
	maps.DeleteFunc(c.retry, func(_ *Peer, at time.Time) bool { return now.After(at) })
	c.retry[p] = now.Add(retryDelay)
}

// isResting reports whether a subscription at a peer has just ended.
func (c *choice) isResting(p *Peer) bool { return time.Now().Before(c.retry[p]) }

// refuse notes that a neighbour has no publisher.
func (c *choice) refuse(p *Peer) {
	c.refused[p] = time.Now()
}

// begin lets the neighbours be asked that have refused before.
func (c *choice) begin() { clear(c.refused) }

// beginLater is begin for a new subscriber, and reports whether no refusal counts any more. A refusal counts for
// firstAsk: the subscriber may be the relay that has just refused, and two relays that refuse each other would
// otherwise ask each other without end.
func (c *choice) beginLater() bool {
	if !some(maps.Values(c.refused), func(at time.Time) bool { return time.Since(at) < firstAsk }) {
		c.begin()
	}
	return len(c.refused) == 0
}

// ask subscribes at neighbours, if subscribers need them: at all other processes of this relay, and at the first
// upstream relay that is connected and has not refused.
func (c *choice) ask() {
	peers, connecting := c.hub.directory.Neighbors(c.hub.place)
	for _, p := range peers {
		if !c.need(p.From) {
			break
		}
		_, refused := c.refused[p]
		if !refused && !c.isResting(p) {
			c.start(p, nil)
		}
		if u := c.hub.publishers.of[p]; u != nil && p.From == Elsewhere && (u.isEstablished() || u.isPending()) {
			connecting = false
			break
		}
	}
	c.connecting = connecting && c.need(Elsewhere)
	c.settle()
}

// need reports whether subscribers need neighbours at a distance, as no peer that is nearer has accepted. Before
// upstream relays are asked, all others have refused.
func (c *choice) need(from Distance) bool {
	return c.hub.subscribers.reach(from) && !some(c.hub.publishers.all(), func(u *upstream) bool {
		return u.peer.From < from && (u.isEstablished() || from == Elsewhere && u.isPending())
	})
}

// askAgain asks the neighbours to wait for a publisher, after a moment, while subscribers do. They accept when they
// have one. Those that do not wait for one are asked more and more rarely.
func (c *choice) askAgain() {
	if c.asking != nil || len(c.awaited()) == 0 {
		return
	}
	c.asking = c.hub.after(min(firstAsk<<min(c.asked, 8), lastAsk), func() {
		c.asking = nil
		peers := c.awaited()
		if len(peers) == 0 {
			return
		}
		c.asked++
		for _, p := range peers {
			ms := uint64(c.patience(p).Milliseconds())
			c.start(p, &ms)
		}
	})
}

// patience is how long a neighbour is asked to wait for a publisher. An upstream relay waits no longer than the
// subscribers: otherwise relays that ask each other would wait for ever.
func (c *choice) patience(p *Peer) time.Duration {
	return min(max(p.Patience, c.hub.subscribers.patience()), c.hub.directory.MaxRendezvous)
}

// awaited returns the neighbours, if subscribers of this process, or requests for the tracks that are offered, wait
// for a publisher. A session that takes no requests any more does not count: its publishers go elsewhere, too.
func (c *choice) awaited() []*Peer {
	s := &c.hub.subscribers
	stays := func(u *upstream) bool { return u.peer.Owner.TakesRequests() }
	if !s.wait() && len(s.waiting) == 0 || c.hub.publishers.have(stays) {
		return nil
	}
	peers, _ := c.hub.directory.Neighbors(c.hub.place)
	return peers
}

// found ends the search for a publisher: one has accepted.
func (c *choice) found() {
	for o := range c.hub.publishers.all() {
		if !o.isEstablished() && !o.isPending() { // it was asked to wait
			o.cancelLocked(moqt.ResetCancelled)
		}
	}
	c.asked = 0
	c.begin()
}

// settle ends the subscriptions that are not needed any more, after Config.Linger, and when they have brought the
// groups that were missed: until then they bring the end of the group that they have begun.
func (c *choice) settle() {
	if len(c.notNeeded()) == 0 {
		stopTimer(&c.surplus)
		return
	}
	if c.surplus != nil {
		return
	}
	c.surplus = c.hub.after(c.hub.directory.Linger, func() {
		c.surplus = nil
		for _, u := range c.notNeeded() {
			u.cancelLocked(moqt.ResetCancelled)
		}
	})
}

// notNeeded returns the subscriptions that are not needed: those at publishers of this process if nobody is subscribed,
// and those at neighbours if a publisher is near, a preferred neighbour has the track, or no subscriber of this process
// is left.
func (c *choice) notNeeded() []*upstream {
	needed, known := c.needed()
	return slices.Collect(where(c.hub.publishers.all(), func(u *upstream) bool {
		switch {
		case u.over || u.refills > 0:
			return false
		case u.peer.From == Here:
			return !u.offered && c.hub.subscribers.areNone()
		}
		return known && !slices.Contains(needed, u)
	}))
}

// needed returns the subscriptions at neighbours to keep, and whether it is known yet: as long as none of those that
// are connected has the track, all are. Processes that have it have publishers of their own, and all are kept.
func (c *choice) needed() (needed []*upstream, known bool) {
	s := &c.hub.subscribers
	if c.hub.publishers.have(broughtFrom(Here)) {
		return nil, true
	}
	peers, _ := c.hub.directory.Neighbors(c.hub.place)
	for _, p := range peers {
		u, wanted := c.hub.publishers.of[p], s.reach(p.From) || len(s.waiting) > 0
		if known && p.From == Elsewhere {
			break
		}
		if u != nil && (wanted || u.offered) {
			needed = append(needed, u)
		}
		known = known || u != nil && u.isEstablished() && wanted
	}
	return needed, known || !s.reach(Elsewhere) && len(s.waiting) == 0
}

// sources yields the peers to ask about the track on behalf of another, each once: first the publishers that the relay
// subscribes at, then the peers that announced the namespace, then the neighbours, unless one of these asks. After them
// it looks again, and waits for an upstream relay that may be connected soon: one of them may have gone away meanwhile.
// It takes Hub.mu.
func (c *choice) sources(ctx context.Context, budget *fetch.Budget, a asker) iter.Seq[*Peer] {
	return func(yield func(*Peer) bool) {
		asked := make(map[*Peer]struct{})
		for {
			c.hub.mu.Lock()
			changed := c.hub.publishers.changed
			c.hub.mu.Unlock()
			peers, connecting := c.presentSources(a)
			peers = slices.DeleteFunc(peers, func(p *Peer) bool {
				_, again := asked[p]
				asked[p] = struct{}{}
				return again
			})
			for _, p := range awakeFirst(ctx, budget, peers) {
				if !yield(p) {
					return
				}
			}
			if len(peers) == 0 && !(connecting && budget.Await(ctx, changed)) {
				return
			}
		}
	}
}

// awakeFirst returns peers with those processes last that do not answer a probe: one that has crashed takes seconds to
// be noticed.
func awakeFirst(ctx context.Context, budget *fetch.Budget, peers []*Peer) []*Peer {
	isProcess := func(p *Peer) bool { return p.From == Beside }
	if len(peers) < 2 || !slices.ContainsFunc(peers, isProcess) {
		return peers
	}
	ctx, cancel := context.WithTimeout(ctx, awakeTimeout)
	defer cancel()
	var probes sync.WaitGroup
	silent, done := make([]bool, len(peers)), make(chan struct{})
	for i, p := range peers {
		if isProcess(p) {
			probes.Go(func() { silent[i] = p.Conn.Probe(ctx) != nil })
		}
	}
	go func() {
		probes.Wait()
		close(done)
	}()
	budget.Await(ctx, done)
	cancel()
	<-done
	var awake, others []*Peer
	for i, p := range peers {
		if silent[i] {
			others = append(others, p)
		} else {
			awake = append(awake, p)
		}
	}
	return append(awake, others...)
}

// presentSources returns the sources of now, and reports whether there may be an upstream relay soon. It takes Hub.mu.
func (c *choice) presentSources(a asker) (peers []*Peer, connecting bool) {
	others := c.hub.directory.publishersOf(c.hub.place)
	neighbors, connecting := c.hub.directory.Neighbors(c.hub.place)
	others = append(others, neighbors...)
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for u := range c.hub.publishers.where(func(u *upstream) bool { return u.feeds(a) }) {
		peers = append(peers, u.peer)
	}
	for _, p := range others {
		if u := c.hub.publishers.of[p]; !p.isExcluded(c.hub) && (u == nil || !u.isEstablished()) && a.mayUse(p) {
			peers = append(peers, p)
		}
	}
	return peers, connecting && a.peer.Reach >= Elsewhere
}
