package hub

import (
	"context"
	"errors"
	"math"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

const (
	// openTimeout is how long to wait for a request stream to a publisher that allows no more streams.
	openTimeout = 5 * time.Second
	// minExtension is the shortest time between extensions of a subscription, however soon it expires.
	minExtension = time.Second
)

var errExcluded = &moqt.RequestError{
	Code:   moqt.RequestUninterested,
	Reason: "objects of this session contradicted those of another publisher of the track",
}

// upstream is a subscription of the relay at a publisher (draft §5.1), which began with its PUBLISH or with a SUBSCRIBE
// of the relay.
type upstream struct {
	hub        *Hub
	peer       *Peer
	receiver   *receiver
	newcomer   newcomer
	offered    bool          // by PUBLISH
	repeats    uint64        // lower groups may have come from another publisher before
	rendezvous *uint64       // a neighbour was asked to wait for a publisher, for so many milliseconds; nil: it was not
	pauses     bool          // offered with Forward 0: the publisher sends objects only while it is asked to
	ready      chan struct{} // closed when objects may come: see establish
	changed    chan struct{} // wakes run

	// Guarded by Hub.mu.
	sub      *session.Subscription // nil while SUBSCRIBE is being sent
	sequence int                   // in the order of establishment, from 1; 0: it is not Established
	since    time.Time             // it is established
	largest  *moqt.Location        // what its publisher knew then or, if that was nothing, the first object of a Sluice
	forward  bool                  // Forward State
	group    *groupRequest         // sent last
	over     bool
	refills  int          // of groups that were missed, which go on
	limit    *time.Timer  // for its last streams: see publishers.limitEnding
	limited  bool         // not for the fast path: see Hub.limit
	asked    moqt.HopPath // what its request has come through
	path     moqt.HopPath // what its objects have come through, the peer last
}

func newUpstream(h *Hub, p *Peer) *upstream {
	u := &upstream{hub: h, peer: p, ready: make(chan struct{}), changed: make(chan struct{}, 1)}
	u.receiver, u.newcomer.upstream = &receiver{upstream: u}, u
	return u
}

// newOffered returns an upstream for a PUBLISH.
func newOffered(h *Hub, p *Peer, sub *session.Subscription) *upstream {
	u := newUpstream(h, p)
	u.sub, u.offered, u.pauses = sub, true, !sub.Offer().Parameters.ForwardState()
	return u
}

// serve accepts a PUBLISH, and serves the subscription until it ends.
func (u *upstream) serve(permit Permit) {
	if !u.accept(permit) {
		return
	}
	permit.Hold(func(*moqt.RequestError) { u.withdrawn() })
	offer := u.sub.Offer()
	u.establish(&offer.Parameters, offer.Properties)
	u.hub.directory.offer(u.hub, u.peer, true)
	u.run(offer.Parameters.Expires, permit)
	u.hub.directory.offer(u.hub, u.peer, false)
}

// accept answers a PUBLISH. A publisher that offers the track with Forward 0 is asked for objects only while a
// subscriber wants them (draft §9.5).
func (u *upstream) accept(permit Permit) bool {
	h := u.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.peer.isExcluded(h) {
		u.peer.Reject(u.sub.Request, errExcluded)
		return false
	}
	u.forward = h.demand.forward(u)
	forward := u.forward
	own := h.publishers.of[u.peer]
	h.publishers.of[u.peer] = u
	// The relay's own subscription to the same track ends here (draft §5.1).
	if u.sub.Accept(moqt.Parameters{Forward: &forward, Expires: permit.Expires()}, u.receiver) != nil {
		delete(h.publishers.of, u.peer)
		return false
	}
	if own != nil {
		own.over = true
		own.leave()
	}
	return true
}

// subscribe sends SUBSCRIBE, and serves the subscription until it ends.
func (u *upstream) subscribe() {
	h := u.hub
	ctx, cancel := context.WithTimeout(u.peer.Session.Context(), openTimeout)
	sub, err := u.peer.Session.Subscribe(ctx, u.request(), u.receiver)
	cancel()
	if err != nil {
		u.ended(err)
		return
	}
	h.mu.Lock()
	u.sub = sub
	over := u.over
	h.mu.Unlock()
	if over || u.peer.From == Here && !h.directory.isAnnounced(h.place, u.peer) { // revoked meanwhile
		sub.Cancel(moqt.ResetCancelled)
	}
	ok, err := sub.Wait(context.Background()) // bounded by the session
	if err == nil && ok == nil {
		err = context.Cause(sub.Context())
	}
	if err != nil {
		u.ended(err)
		return
	}
	if u.establish(&ok.Parameters, ok.Properties) {
		h.directory.tell(h)
	}
	u.run(ok.Parameters.Expires, nil)
}

// request returns the SUBSCRIBE. It has no filter, so that publishers send the current group from its start, as many
// do: a publisher that serves no FETCH has no other way to give its catalog to late subscribers.
func (u *upstream) request() moqt.Subscribe {
	m := moqt.Subscribe{Track: u.peer.nameOf(u.hub), Parameters: moqt.Parameters{
		HopPath: u.asked, RendezvousTimeout: u.rendezvous,
	}}
	if !u.forward {
		m.Parameters.Forward = new(bool)
	}
	if u.group != nil {
		m.Parameters.NewGroupRequest = &u.group.value
	}
	return m
}

// mayRepeat notes that others have brought the groups up to a location, if there is one.
func (u *upstream) mayRepeat(largest *moqt.Location) {
	if largest != nil {
		u.repeats = largest.Group + 1
	}
}

// unrepeated returns the part of a range that no other publisher has brought before. The rest has to be compared, which
// the kernel does not do: a publisher that takes another one's place sends the current group from its start.
func (u *upstream) unrepeated(r moqt.Range) moqt.Range {
	if r.Start.Group < u.repeats {
		r.Start = moqt.Location{Group: u.repeats}
	}
	return r
}

// establish accepts the waiting subscribers, before any object is received. The publisher may be an earlier one that
// was restarted, whose objects may contradict what it published before. That is decided before any object, too. It
// reports whether the track is to be offered, because its first publisher brings it, or requests wait for it.
func (u *upstream) establish(p *moqt.Parameters, properties moqt.Properties) (offers bool) {
	h, largest := u.hub, p.LargestObject
	h.mu.Lock()
	defer h.mu.Unlock()
	u.path = p.HopPath
	offers = u.peer.From == Elsewhere && !h.publishers.areEstablished() || len(h.subscribers.waiting) > 0
	before, missed := h.data, h.publishers.missed(u, largest)
	await := h.fast.forwarded()
	earlier := h.publishers.establish(u, largest)
	if h.data != before { // the publisher was restarted: what came before is forgotten
		missed = moqt.Range{Start: moqt.MaxLocation}
	}
	u.startRefill(missed)
	h.description.learn(largest, properties)
	h.publishersChangedLocked()
	h.subscribersChangedLocked()
	u.peer.Owner.Publishes(&h.name, true, nil)
	h.directory.Tasks.Go(func() {
		defer close(u.ready)
		await(u.sub.Context())
		u.replace(earlier)
	})
	return offers
}

// startRefill begins to fetch missed objects, if there are any; Hub.mu is held.
func (u *upstream) startRefill(missed moqt.Range) {
	for _, part := range ends(missed) {
		u.hub.directory.Tasks.Go(u.newRefill(part).run)
	}
}

// newRefill enters a refill, which has to run; Hub.mu is held.
func (u *upstream) newRefill(missed moqt.Range) *refill {
	h := u.hub
	u.repeats = max(u.repeats, missed.End.Group+1) // streams of these groups may come on the subscription, too
	r := &refill{
		upstream: u, data: h.data, wanted: missed, passed: h.fast.track.Passed(), await: h.fast.forwarded(),
		open: make(map[uint64]*refilled),
	}
	if h.fast.from != nil {
		h.fast.update() // so that the kernel forwards none of these groups
	}
	u.refills++
	h.publishers.refills++
	h.publishers.lacking = math.MaxUint64
	return r
}

// replace cancels earlier upstreams, if there are any, and forgets their objects, if their publishers are gone although
// their sessions have not timed out yet. A publisher that is only silent stands: otherwise another one could take over
// a track that pauses.
func (u *upstream) replace(earlier []*upstream) {
	if len(earlier) == 0 || anyIsThere(u.sub.Context(), earlier) {
		return
	}
	h := u.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.over || u.sub.Context().Err() != nil {
		return
	}
	for _, o := range earlier {
		o.cancelLocked(moqt.ResetCancelled)
	}
	h.publishers.forget(u)
	h.directory.Log.Info("a publisher was replaced, as it does not answer any more", "track", h.name,
		"publisher", u.peer.Remote())
}

// anyIsThere probes the publishers of upstreams, and reports whether one of them answers.
func anyIsThere(ctx context.Context, us []*upstream) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found := make(chan bool, len(us))
	for _, u := range us {
		u.hub.directory.Tasks.Go(func() { found <- u.isThere(ctx) })
	}
	for range us {
		if <-found {
			return true
		}
	}
	return false
}

// isThere reports whether the publisher answers: also one behind a neighbour, as far as that knows.
func (u *upstream) isThere(ctx context.Context) bool {
	if u.peer.From == Here {
		return u.peer.Conn.Probe(ctx) == nil
	}
	_, err := u.peer.Session.TrackStatus(ctx, moqt.TrackStatus{Track: u.peer.nameOf(u.hub)})
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return err == nil || ok && refused.Code == moqt.RequestNotSupported
}

// feeds reports whether the objects of an upstream may go to who asks. Hub.mu is held.
func (u *upstream) feeds(a asker) bool { return a.mayUse(u.peer) && a.peer.Takes(u.path) }

// isPending reports whether the publisher was asked and has not answered yet, although it will soon.
func (u *upstream) isPending() bool { return !u.isEstablished() && u.rendezvous == nil }

// isEstablished reports whether the publisher has accepted.
func (u *upstream) isEstablished() bool { return u.sequence > 0 }

// broughtFrom returns a predicate for upstreams that bring tracks from a distance.
func broughtFrom(d Distance) func(*upstream) bool {
	return func(u *upstream) bool { return u.peer.From == d }
}

// isEnding reports whether the publisher has sent PUBLISH_DONE. Its last streams may be on their way.
func (u *upstream) isEnding() bool {
	select {
	case <-u.sub.Ending():
		return true
	default:
		return false
	}
}

// precedes reports whether the objects of an upstream stand if those of another one contradict them: the earlier one
// counts, unless its publisher has sent PUBLISH_DONE.
func (u *upstream) precedes(o *upstream) bool {
	if u.isEnding() != o.isEnding() {
		return o.isEnding()
	}
	return u.sequence < o.sequence
}

// wake makes run compare the demand with what the publisher was told.
func (u *upstream) wake() {
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

// cancelLocked ends the subscription; Hub.mu is held.
func (u *upstream) cancelLocked(code moqt.StreamResetCode) {
	u.over = true
	if u.sub != nil {
		u.sub.Cancel(code)
	}
}

// run updates the established subscription until it ends. It extends it before it expires (draft §10.2.10). permit is
// that of the PUBLISH, and nil if the relay subscribed.
func (u *upstream) run(expires *uint64, permit Permit) {
	ending := u.sub.Ending()
	extend := time.NewTimer(untilExtension(expires))
	defer extend.Stop()
	u.wake()
	for {
		due := false
		select {
		case <-u.sub.Context().Done():
			u.ended(context.Cause(u.sub.Context()))
			return
		case <-ending:
			ending = nil
			u.hub.mu.Lock()
			u.hub.publishers.limitEnding()
			u.hub.mu.Unlock()
			continue
		case m := <-u.sub.Updates():
			u.answerUpdate(m, permit)
			continue
		case <-extend.C:
			due = true
		case <-u.changed:
		}
		if ok := u.update(due); ok != nil {
			extend.Reset(untilExtension(ok.Parameters.Expires))
		}
	}
}

// withdrawn ends the subscription, because its publisher no longer has the permission for its PUBLISH.
func (u *upstream) withdrawn() {
	u.sub.Cancel(moqt.ResetExpiredAuthToken)
	u.hub.directory.unpublished(u.hub, u.peer)
}

// untilExtension returns when to extend a subscription that expires: early enough for the answer, but not all the time.
func untilExtension(expires *uint64) time.Duration {
	if expires == nil || *expires == 0 {
		return math.MaxInt64
	}
	d := moqt.Milliseconds(*expires)
	return max(d-d/4, minExtension)
}

// update tells the publisher about changes of the demand. If an extension is due, it sends an update in
// any case.
func (u *upstream) update(due bool) *moqt.RequestOK {
	if u.isEnding() {
		return nil
	}
	h := u.hub
	var p moqt.Parameters
	h.mu.Lock()
	forward := h.demand.forward(u)
	if forward != u.forward {
		p.Forward = &forward
	}
	if u.group != h.demand.group {
		u.group = h.demand.group
		if h.description.properties.DynamicGroups() {
			p.NewGroupRequest = &u.group.value
		}
	}
	h.mu.Unlock()
	if p.Forward == nil && p.NewGroupRequest == nil && !due {
		return nil
	}
	ok, err := u.sub.Update(context.Background(), p) // bounded by the session
	if err != nil {
		if p.Forward != nil {
			if endsByUpdate(err) {
				u.peer.unpausable.Store(true)
			}
			u.sub.Cancel(moqt.ResetCancelled) // if the publisher does not end it, as it should (draft §10.9.1)
		}
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	u.forward = forward
	if ok.Parameters.LargestObject != nil {
		h.data.RaiseLargest(*ok.Parameters.LargestObject)
	}
	h.publishersChangedLocked()
	u.wake() // the demand may have changed meanwhile
	return ok
}

// endsByUpdate reports whether the error of an update says that the publisher cannot take it, rather than that the
// subscription ended meanwhile for another reason.
func endsByUpdate(err error) bool {
	if _, refused := errors.AsType[*moqt.RequestError](err); refused {
		return true
	}
	if done, ok := errors.AsType[*session.DoneError](err); ok {
		return done.Status == moqt.DoneUpdateFailed || done.Status == moqt.DoneInternalError
	}
	if reset, ok := errors.AsType[*transport.StreamError](err); ok {
		return reset.Remote
	}
	return errors.Is(err, session.ErrTimeout) || errors.Is(err, session.ErrNoResponse)
}

// answerUpdate answers a REQUEST_UPDATE of a publisher that offered the track, with which it can only renew its
// permission.
func (u *upstream) answerUpdate(m *session.Update, permit Permit) {
	if refused := permit.Extend(m.Tokens); refused != nil {
		_ = m.Reject(refused) // fails only if the request is over
		u.withdrawn()
		return
	}
	_ = m.OK(moqt.Parameters{Expires: permit.Expires()})
}

// leave notes that the publisher has left. It returns the other one if only one is left: that may send again what the
// others have brought. Hub.mu is held.
func (u *upstream) leave() (left *upstream) {
	if left = u.hub.publishers.only(); left == nil || !u.isEstablished() {
		return nil
	}
	left.mayRepeat(u.hub.data.Largest())
	return left
}

// ended takes the subscription out of the hub.
func (u *upstream) ended(cause error) {
	h := u.hub
	others := h.directory.publishersOf(h.place)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !u.isEstablished() {
		close(u.ready)
	}
	u.over = true
	stopTimer(&u.limit)
	if u.isEstablished() {
		u.peer.Owner.Publishes(&h.name, false, cause)
	}
	if h.publishers.of[u.peer] == u { // else replaced by a PUBLISH of the same peer
		h.publishers.remove(u, cause, others)
	}
}
