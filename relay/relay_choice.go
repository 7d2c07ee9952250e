package relay

import (
	"slices"
	"time"

	"sluice/moqt"
)

// relayChoice is what publishers knows about the upstream relays that may have the track.
type relayChoice struct {
	hub        *hub
	refused    map[*peer]struct{} // they had no publisher when they were asked last
	latest     time.Time          // when the latest of them refused
	connecting bool               // one of them may be connected soon, and none is
	surplus    *time.Timer        // runs while subscriptions are kept that are not needed any more
}

// begin lets the upstream relays be asked that have refused before.
func (c *relayChoice) begin() { clear(c.refused) }

// beginLater is begin for a new subscriber, and reports whether no refusal counts any more. A refusal counts for
// firstAsk: the subscriber may be the relay that has just refused, and two relays that refuse each other would
// otherwise ask each other without end.
func (c *relayChoice) beginLater() bool {
	if time.Since(c.latest) >= firstAsk {
		c.begin()
	}
	return len(c.refused) == 0
}

func (c *relayChoice) refuse(p *peer) {
	if c.refused == nil {
		c.refused = make(map[*peer]struct{})
	}
	c.refused[p] = struct{}{}
	c.latest = time.Now()
}

// ask subscribes at the first upstream relay that is connected and has not refused, if subscribers of this
// process need one.
func (c *relayChoice) ask() {
	c.connecting = false
	if c.hub.subscribers.reach(elsewhere) && !c.haveNear(false) {
		c.choose()
	}
	c.settle()
}

func (c *relayChoice) choose() {
	for _, r := range c.hub.relay.upstreamsOf(c.hub.place) {
		p, connecting := r.current()
		if p == nil {
			c.connecting = c.connecting || connecting
			continue
		}
		u := c.hub.publishers.of[p]
		if u == nil && c.mayAsk(p) {
			u = newUpstream(c.hub, p)
			c.hub.publishers.start(u)
		}
		if u != nil && (u.established || !u.standing) {
			c.connecting = false
			return
		}
	}
}

// mayAsk reports whether an upstream relay can be asked, that has neither refused nor just ended a subscription.
func (c *relayChoice) mayAsk(p *peer) bool {
	_, refused := c.refused[p]
	return !refused && !time.Now().Before(c.hub.publishers.retry[p]) && c.hub.publishers.mayUse(p)
}

// haveNear reports whether a publisher of this machine has accepted, or, unless only that counts, may accept soon: one
// that is connected to this process, or to another one of this relay.
func (c *relayChoice) haveNear(accepted bool) bool {
	return c.hub.publishers.have(func(u *upstream) bool {
		return u.peer.from < elsewhere && (u.established || !accepted && !u.standing)
	})
}

// settle ends the subscriptions at upstream relays that are not needed any more, after Config.Linger, and when
// they have brought the groups that were missed: until then they bring the end of the group that they have begun.
func (c *relayChoice) settle() {
	if c.surplus != nil || len(c.notNeeded()) == 0 {
		return
	}
	c.surplus = c.hub.after(c.hub.relay.cfg.Linger, func() {
		c.surplus = nil
		for _, u := range c.notNeeded() {
			u.cancelLocked(moqt.ResetCancelled)
		}
	})
}

// notNeeded returns the subscriptions at upstream relays that are not needed, because a publisher is near, because
// a preferred relay has the track, or because no subscriber of this process is left.
func (c *relayChoice) notNeeded() []*upstream {
	list := slices.Collect(c.hub.publishers.where(func(u *upstream) bool {
		return u.peer.from == elsewhere && !u.over && !u.refilling
	}))
	if len(list) == 0 {
		return nil
	}
	needed, known := c.needed()
	return slices.DeleteFunc(list, func(u *upstream) bool { return !known || slices.Contains(needed, u) })
}

// needed returns the subscriptions at upstream relays to keep, and whether it is known yet: as long as none of
// the relays that are connected has the track, all are.
func (c *relayChoice) needed() (needed []*upstream, known bool) {
	own := c.hub.subscribers.reach(elsewhere) || len(c.hub.subscribers.waiting) > 0
	if c.haveNear(true) {
		return nil, true
	}
	relays, _ := c.hub.relay.upstreamPeers(c.hub.place)
	for _, p := range relays {
		u := c.hub.publishers.of[p]
		if u != nil && (own || u.offered) {
			needed = append(needed, u)
		}
		if u != nil && u.established && own {
			return needed, true
		}
	}
	return needed, !own
}
