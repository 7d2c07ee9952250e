package relay

import (
	"context"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
)

// HandleSubscribe implements session.Handler (draft §9.4).
func (p *peer) HandleSubscribe(pub *session.Publication) {
	permit, refused := p.authorize(pub.Request, ActionSubscribe, pub.Track())
	if refused != nil {
		p.reject(pub.Request, refused)
		return
	}
	h := p.acquire(pub.Track())
	if h == nil {
		p.reject(pub.Request, errTooManyTracks)
		return
	}
	defer p.relay.release(h)
	params := pub.Parameters()
	d := newDownstream(h, p, &params, permit)
	d.pub = pub
	if patience := p.rendezvous(&params); patience > 0 {
		d.until = time.Now().Add(patience)
	}
	h.enter(d, params.NewGroupRequest)
	d.run()
}

// rendezvous is how long a subscriber waits for a publisher (draft §10.2.6).
func (p *peer) rendezvous(params *moqt.Parameters) time.Duration {
	if params.RendezvousTimeout == nil {
		return 0
	}
	return min(moqt.Milliseconds(*params.RendezvousTimeout), p.relay.cfg.MaxRendezvous)
}

// enter adds a subscriber, asks the publishers that there are, and answers if that is possible.
func (h *hub) enter(d *downstream, group *uint64) {
	h.mu.Lock()
	h.down[d] = struct{}{}
	h.requestGroup(group)
	h.mu.Unlock()
	// After d is in the hub, so that a publisher that comes now is not missed.
	peers := h.relay.publishersOf(h.place)
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.over {
		return
	}
	if len(h.up) == 0 {
		h.failure = nil
	}
	h.recruit(peers...)
	h.refresh()
	h.settle()
}

// patient reports whether the subscriber still waits for a publisher.
func (d *downstream) patient() bool { return time.Now().Before(d.until) }

// unavailable is why a subscriber cannot be served; hub.mu is held.
func (d *downstream) unavailable() *moqt.RequestError {
	switch {
	case d.hub.failure != nil:
		return d.hub.failure
	case d.until.IsZero():
		return &moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "nobody publishes the track"}
	}
	return &moqt.RequestError{Code: moqt.RequestTimeout, Reason: "no publisher came in time"}
}

// accept answers SUBSCRIBE; hub.mu is held.
func (d *downstream) accept() {
	h := d.hub
	largest := h.data.Largest()
	if refused := checkFilter(d.filter, largest); refused != nil {
		d.refuse(refused)
		return
	}
	params := d.pub.Parameters()
	d.wanted = d.filter.Range(largest)
	d.accepted = true
	close(d.ready)
	d.openOutlet(&params)
	if d.pub.Accept(moqt.Parameters{LargestObject: largest, Expires: d.permit.expires()}, h.properties) != nil {
		return // the peer has cancelled it
	}
	if largest != nil {
		h.recall(d, largest.Group)
	}
	h.join(d)
}

// checkFilter refuses a range that ends before what comes next (draft §5.1.2).
func checkFilter(f *moqt.Filter, largest *moqt.Location) *moqt.RequestError {
	if f == nil || largest == nil || f.Range(largest).End.Group >= largest.Group {
		return nil
	}
	return &moqt.RequestError{Code: moqt.RequestInvalidRange, Reason: "the range ends before group " + largest.String()}
}

// refuse rejects SUBSCRIBE; hub.mu is held.
func (d *downstream) refuse(e *moqt.RequestError) {
	if d.leave() {
		d.peer.reject(d.pub.Request, e)
	}
}

// run serves a subscription until it ends.
func (d *downstream) run() {
	defer d.ended()
	if !d.awaitAnswer() {
		return
	}
	d.begin(d.pub.Context())
	for {
		select {
		case <-d.pub.Context().Done():
			return
		case <-d.permit.expired:
			d.end(moqt.DoneExpired, moqt.ResetExpiredAuthToken)
		case <-d.permit.due:
			if d.permit.review() != nil {
				d.end(moqt.DoneUnauthorized, moqt.ResetExpiredAuthToken)
			}
		case u := <-d.pub.Updates():
			d.update(u)
		}
	}
}

// awaitAnswer waits until the subscription is Established, and reports false if it is over before.
func (d *downstream) awaitAnswer() bool {
	rendezvous := time.NewTimer(time.Until(d.until))
	defer rendezvous.Stop()
	for {
		select {
		case <-d.ready:
			return true
		case <-d.pub.Context().Done():
			return false
		case <-rendezvous.C:
			d.timedOut()
		}
	}
}

// timedOut ends the wait for a publisher (draft §10.2.6).
func (d *downstream) timedOut() {
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !d.accepted && len(h.up) == 0 {
		d.refuse(d.unavailable())
	}
}

// end ends the subscription at once.
func (d *downstream) end(code moqt.PublishDoneCode, reset moqt.StreamResetCode) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if d.accepted {
		d.finish(code, "", &reset)
	}
}

// awaitForward waits until a publisher forwards objects, so that the Largest Object is a current one; or until there is no publisher, or
// the time is up. mu is held, and released while it waits.
func (h *hub) awaitForward(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for ctx.Err() == nil {
		established, forwards := h.established()
		if forwards || !established {
			return
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		h.mu.Lock()
	}
}

// update applies a REQUEST_UPDATE of the subscriber (draft §10.9.1).
func (d *downstream) update(u *session.Update) {
	refused := d.permit.extend(u.Tokens)
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if refused == nil && u.Parameters.Filter != nil {
		refused = checkFilter(u.Parameters.Filter, h.data.Largest())
	}
	if refused != nil {
		d.deny(u, refused)
		return
	}
	if !d.forward && u.Parameters.Forward != nil && *u.Parameters.Forward {
		d.resumes = true
		h.refresh()
		h.awaitForward(d.pub.Context())
		d.resumes = false
	}
	largest := h.data.Largest()
	if u.OK(moqt.Parameters{LargestObject: largest, Expires: d.permit.expires()}) != nil || d.over {
		return
	}
	d.apply(&u.Parameters, largest)
}

// deny refuses an update, which ends the subscription; hub.mu is held.
func (d *downstream) deny(u *session.Update, e *moqt.RequestError) {
	d.peer.relay.metrics.refused(e.Code)
	_ = u.Reject(e) // fails only if the request is over
	reset := moqt.ResetCancelled
	d.finish(moqt.DoneUpdateFailed, e.Reason, &reset)
}

// apply makes new parameters effective; hub.mu is held.
func (d *downstream) apply(p *moqt.Parameters, largest *moqt.Location) {
	h := d.hub
	if p.Filter != nil {
		d.filter, d.wanted = p.Filter, p.Filter.Range(largest)
		d.drop(func(s *track.Segment) bool { return s.Group < d.wanted.Start.Group || s.Group > d.wanted.End.Group })
	}
	if p.Forward != nil && *p.Forward != d.forward {
		d.forward = *p.Forward
		d.forwardChanged()
	}
	all := d.pub.Parameters()
	if p.SubscriberPriority != nil {
		d.eachOutlet(func(o OutletSubscription) { o.SetPriority(all.Priority()) })
	}
	if p.ObjectDeliveryTimeout != nil || p.SubgroupDeliveryTimeout != nil {
		object, subgroup := d.timeouts(&all)
		d.eachOutlet(func(o OutletSubscription) { o.SetTimeouts(object, subgroup) })
	}
	h.requestGroup(p.NewGroupRequest)
	h.refresh()
	h.join(d)
}

// forwardChanged stops what must not be sent any more. What the subscriber did not want before it wants now (draft §11.4.3).
func (d *downstream) forwardChanged() {
	if !d.forward {
		d.drop(func(*track.Segment) bool { return true })
		return
	}
	d.mu.Lock()
	d.shunned = nil
	d.mu.Unlock()
}

func (d *downstream) eachOutlet(f func(OutletSubscription)) {
	for _, o := range append(d.former, d.outlet) {
		f(o)
	}
}
