package relay

import (
	"sluice/moqt"
	"sluice/moqt/session"
)

// HandlePublish implements session.Handler (draft §10.10).
func (p *peer) HandlePublish(sub *session.Subscription) {
	permit, refused := p.authorize(sub.Request, ActionPublish, sub.Track())
	if refused != nil {
		p.reject(sub.Request, refused)
		return
	}
	h := p.acquire(sub.Track())
	if h == nil {
		p.reject(sub.Request, errTooManyTracks)
		return
	}
	defer p.relay.release(h)
	u := newUpstream(h, p)
	u.sub, u.offered, u.pauses = sub, true, !sub.Offer().Parameters.ForwardState()
	if !u.accept(permit) {
		return
	}
	offer := sub.Offer()
	u.establish(offer.Parameters.LargestObject, offer.Properties)
	p.relay.publish(h)
	u.run(offer.Parameters.Expires, permit)
}

var errBarred = &moqt.RequestError{
	Code: moqt.RequestUninterested, Reason: "objects of this session contradicted those of another publisher of the track",
}

// accept answers PUBLISH. A publisher that offers the track with Forward 0 is asked for objects only while somebody wants them
// (draft §9.5); others send them anyway, and not all of those in use can be stopped.
func (u *upstream) accept(permit *lease) bool {
	h := u.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.peer.isBarred(h) {
		u.peer.reject(u.sub.Request, errBarred)
		return false
	}
	forward := h.forward || !u.pauses
	u.forward = forward
	own := h.up[u.peer]
	h.up[u.peer] = u
	// A subscription of ours to the same track ends here (draft §5.1).
	if u.sub.Accept(moqt.Parameters{Forward: &forward, Expires: permit.expires()}, u) != nil {
		delete(h.up, u.peer)
		return false
	}
	if own != nil {
		own.over = true
	}
	return true
}

// publish offers a track that a publisher offered to those that asked for such tracks (draft §9.5).
func (r *Relay) publish(h *hub) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.wanted.matching(h.place) {
		h.offer(w)
	}
}
