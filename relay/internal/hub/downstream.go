package hub

import (
	"context"
	"slices"
	"time"

	"sluice/fastpath"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/fetch"
	"sluice/track"
)

// downstream is a subscription of a peer to a track (draft §5.1), which began with its SUBSCRIBE or with a PUBLISH of
// the relay. Its delivery sends the data.
type downstream struct {
	hub    *Hub
	peer   *Peer
	number uint64 // in the order in which subscriptions began
	pub    *session.Publication
	permit Permit
	until  time.Time     // when the peer no longer waits for a publisher; zero if it never did
	path   moqt.HopPath  // what its request has come through
	ready  chan struct{} // closed when accepted

	// Guarded by Hub.mu.
	accepted bool // Established, or offered by the relay
	over     bool
	resumes  bool   // it wants objects as soon as publishers forward them
	since    uint64 // the group in which it began
	fast     bool   // the fast path serves it, if it serves the track
	counted  bool   // Established at both ends, and not hidden
	delivery delivery
}

func newDownstream(
	h *Hub, p *Peer, pub *session.Publication, params *moqt.Parameters, permit Permit,
) *downstream {
	d := &downstream{
		hub: h, peer: p, number: h.directory.Subscriptions.Add(1), pub: pub, permit: permit, ready: make(chan struct{}),
	}
	d.delivery = newDelivery(d, params)
	return d
}

// newSubscribed returns a downstream for a SUBSCRIBE.
func newSubscribed(h *Hub, p *Peer, pub *session.Publication, permit Permit) *downstream {
	params := pub.Parameters()
	if p.Hidden {
		params.Filter = nil // a process of an older version says from where on it has missed something
	}
	d := newDownstream(h, p, pub, &params, permit)
	d.path = params.HopPath
	if ms := params.RendezvousTimeout; ms != nil && *ms > 0 { // draft §10.2.6
		d.until = time.Now().Add(min(moqt.Milliseconds(*ms), p.Directory.MaxRendezvous))
	}
	return d
}

// serve answers a SUBSCRIBE, and serves the subscription until it ends.
func (d *downstream) serve() {
	d.hub.enter(d, d.pub.Parameters().NewGroupRequest)
	d.permit.Hold(d.withdrawn)
	d.run()
	d.delivery.streams.filling.Wait() // fills use the hub, and have ended with the request
}

// offeredLocked enters a subscription that begins with PUBLISH of the relay, which told the Largest Object of now.
// params come from the SUBSCRIBE_TRACKS; Hub.mu is held.
func (d *downstream) offeredLocked(params *moqt.Parameters, now track.Position) {
	h := d.hub
	d.admitLocked(params, now.Largest)
	h.subscribers.all[d] = struct{}{}
	h.subscribersChangedLocked()
	d.fillLocked(nil, now.Largest)
	d.delivery.join(now)
}

// admitLocked makes the subscription get objects; Hub.mu is held.
func (d *downstream) admitLocked(params *moqt.Parameters, largest *moqt.Location) {
	d.accepted = true
	close(d.ready)
	if largest != nil {
		d.since = largest.Group
	}
	d.delivery.selection.setFilter(d.delivery.selection.filter, largest)
	d.delivery.setRangeFilters(params.RangeFilters)
	d.delivery.open(params)
}

// serveOffer serves a subscription that began with a PUBLISH of the relay, until it ends.
func (d *downstream) serveOffer() {
	h := d.hub
	defer h.directory.Release(h)
	d.permit.Hold(d.withdrawn)
	d.begin()
	defer d.delivery.streams.filling.Wait()
	if d.pub.Wait(context.Background()) != nil {
		d.ended()
		return
	}
	h.mu.Lock()
	p, forward := d.pub.Parameters(), d.pub.Forward()
	p.Forward = &forward // absent means 1
	now := h.data.Position()
	d.applyLocked(&p, now)
	now.Close()
	h.mu.Unlock()
	d.run()
}

// asker returns who asks.
func (d *downstream) asker() asker { return asker{d.peer, d.path} }

// renditionStatus describes the set that the subscription belongs to, or returns nil if it does not.
func (d *downstream) renditionStatus() *RenditionStatus {
	m := d.pub.Parameters().Rendition
	if m == nil {
		return nil
	}
	r := &d.peer.Sets
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.of[m.Set]; s != nil {
		return new(s.status(m.Set))
	}
	return nil
}

// isCutOffLocked reports whether no publisher is left that may feed an accepted subscription, although others have
// one; Hub.mu is held.
func (d *downstream) isCutOffLocked() bool {
	s := &d.hub.publishers
	relayed := d.peer.Reach < Elsewhere || d.peer.HopID() != 0 && s.areEstablished()
	return d.accepted && relayed && !s.supply(d.asker()).established
}

// waits reports whether the subscriber still waits for a publisher.
func (d *downstream) waits() bool { return time.Now().Before(d.until) }

// unavailableLocked returns the reason why a subscriber cannot be served; Hub.mu is held.
func (d *downstream) unavailableLocked() *moqt.RequestError {
	switch {
	case d.hub.outage.failure != nil:
		return d.hub.outage.failure
	case d.until.IsZero():
		return fetch.ErrNoSource
	}
	return &moqt.RequestError{Code: moqt.RequestTimeout, Reason: "no publisher came in time"}
}

// acceptLocked answers SUBSCRIBE; Hub.mu is held.
func (d *downstream) acceptLocked() {
	now := d.hub.data.Position()
	defer now.Close()
	largest := now.Largest
	params := d.pub.Parameters()
	refused := d.checkFilter(d.delivery.selection.filter, largest)
	if refused == nil {
		wanted := d.delivery.selection.filter.Range(largest)
		refused = d.hub.subscribers.checkRangeFilters(d.peer, d, params.RangeFilters, wanted)
	}
	if refused != nil {
		d.refuseLocked(refused)
		return
	}
	d.admitLocked(&params, largest)
	d.delivery.startLate(largest)
	answer := moqt.Parameters{
		LargestObject: largest, Expires: d.permit.Expires(), HopPath: d.hub.publishers.supply(d.asker()).path,
	}
	if d.pub.Accept(answer, d.hub.description.properties) != nil {
		return // the peer has cancelled it
	}
	switch {
	case largest == nil:
	case d.fillLocked(nil, largest):
	default:
		d.delivery.sendCurrentGroup(largest.Group)
	}
	d.delivery.join(now)
}

// fillLocked serves the fill that the SUBSCRIBE or, if u is not nil, its update asks for, and reports whether there is
// one; Hub.mu is held.
func (d *downstream) fillLocked(u *session.Update, largest *moqt.Location) bool {
	req := d.pub.Fill(u, largest)
	if req == nil {
		return false
	}
	d.delivery.streams.fill(req, func() {
		d.hub.serveFetch(d.peer, req, &req.Parameters, req.Range, nil) // the subscription has a permission
	})
	return true
}

// checkFilter refuses a range that ends before the next object (draft §5.1.2). Since draft-20 such a subscription waits
// for an update of its filter.
func (d *downstream) checkFilter(f *moqt.Filter, largest *moqt.Location) *moqt.RequestError {
	waits := !d.peer.Session.Version().EndsWithFilter()
	if f == nil || largest == nil || waits || f.Range(largest).End.Group >= largest.Group {
		return nil
	}
	return &moqt.RequestError{
		Code: moqt.RequestInvalidRange, Reason: "the range ends before group " + largest.String(),
	}
}

// refuseLocked rejects SUBSCRIBE; Hub.mu is held.
func (d *downstream) refuseLocked(e *moqt.RequestError) {
	if d.leaveLocked() {
		d.peer.Reject(d.pub.Request, e)
	}
}

// run serves a subscription until it ends.
func (d *downstream) run() {
	defer d.ended()
	if !d.awaitAnswer() {
		return
	}
	d.begin()
	d.establish()
	for {
		select {
		case <-d.pub.Context().Done():
			return
		case u := <-d.pub.Updates():
			update{u, d}.apply()
		}
	}
}

// withdrawn ends the subscription, because the subscriber no longer has the permission.
func (d *downstream) withdrawn(why *moqt.RequestError) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if !d.accepted {
		d.refuseLocked(why)
		return
	}
	code, reset := moqt.DoneUnauthorized, moqt.ResetExpiredAuthToken
	if why.Code == moqt.RequestExpiredAuthToken {
		code = moqt.DoneExpired
	}
	d.finishLocked(code, "", &reset)
}

// awaitAnswer waits until the subscription is Established. It returns false if the subscription ends before that.
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
	if has := h.publishers.supply(d.asker()); !d.accepted && !has.established && !has.pending {
		d.refuseLocked(d.unavailableLocked())
	}
}

// begin sends the data that was held back, when the message with the subscription's alias is on its way.
func (d *downstream) begin() {
	ctx, cancel := context.WithTimeout(d.pub.Context(), maxHoldTime)
	_ = d.pub.Flush(ctx) // else the data overtakes the message, or the request has ended
	cancel()
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !d.over {
		d.delivery.release()
		h.fast.update()
	}
}

func isCounted(d *downstream) bool { return d.counted }

// establish counts the subscription, which is Established now at both ends. The first one's owner is told.
func (d *downstream) establish() {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if !d.over && !d.peer.Hidden {
		if !d.hub.subscribers.have(isCounted) {
			d.peer.Owner.Subscribes(&d.hub.name, true)
		}
		d.counted = true
	}
}

// applyLocked makes new parameters effective; Hub.mu is held.
func (d *downstream) applyLocked(p *moqt.Parameters, now track.Position) {
	d.delivery.apply(p, now.Largest)
	d.hub.demand.requestGroup(p.NewGroupRequest)
	d.hub.subscribersChangedLocked()
	d.delivery.join(now)
}

// End ends the subscription at once.
func (d *downstream) End(code moqt.PublishDoneCode, reset moqt.StreamResetCode) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if d.accepted {
		d.finishLocked(code, "", &reset)
	}
}

// finishLocked ends the subscription with PUBLISH_DONE, after its streams were delivered or, if there is a code, reset;
// Hub.mu is held.
func (d *downstream) finishLocked(code moqt.PublishDoneCode, reason string, reset *moqt.StreamResetCode) {
	if d.leaveLocked() {
		d.delivery.finish(&moqt.PublishDone{Status: code, Reason: reason}, reset)
	}
}

// ended cleans up after the request.
func (d *downstream) ended() {
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	d.leaveLocked()
	d.delivery.close()
}

// leaveLocked removes the subscription from the hub, and reports whether it was there; Hub.mu is held. The last one's
// owner is told.
func (d *downstream) leaveLocked() bool {
	if d.over {
		return false
	}
	d.over = true
	delete(d.hub.subscribers.all, d)
	if d.counted && !d.hub.subscribers.have(isCounted) {
		d.peer.Owner.Subscribes(&d.hub.name, false)
	}
	d.hub.subscribersChangedLocked()
	return true
}

// isAmong reports whether subscribers of the fast path include d.
func (d *downstream) isAmong(subscribers []fastpath.Subscriber) bool {
	return slices.ContainsFunc(subscribers, func(s fastpath.Subscriber) bool {
		return s.Conn == d.peer.Forwarder && s.Alias == d.pub.Alias()
	})
}
