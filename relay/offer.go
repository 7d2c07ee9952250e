package relay

import (
	"context"
	"errors"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// tracksWatch is an accepted SUBSCRIBE_TRACKS.
type tracksWatch struct {
	peer    *peer
	request *session.IncomingSubscribeTracks
	prefix  moqt.Namespace // guarded by Relay.mu

	mu      sync.Mutex
	blocked map[string]struct{} // tracks that PUBLISH_BLOCKED was sent for
}

// HandleSubscribeTracks implements session.Handler (draft §6.1).
func (p *peer) HandleSubscribeTracks(req *session.IncomingSubscribeTracks) {
	w := &tracksWatch{peer: p, request: req, prefix: req.Message.Prefix, blocked: make(map[string]struct{})}
	name := moqt.FullTrackName{Namespace: w.prefix}
	permit, refused := p.authorize(req.Request, ActionSubscribeTracks, name)
	if refused == nil {
		refused = p.relay.want(w)
	}
	if refused != nil {
		p.reject(req.Request, refused)
		return
	}
	defer p.relay.unwant(w)
	p.keep(req.Request, permit, func(prefix moqt.Namespace) { p.relay.rewant(w, prefix) })
}

// want accepts a SUBSCRIBE_TRACKS and offers it the tracks that there are.
func (r *Relay) want(w *tracksWatch) *moqt.RequestError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := tooLarge(&r.hubTree, w.peer.place(w.prefix), r.cfg.MaxMatches); refused != nil {
		return refused
	}
	if w.request.OK() == nil {
		r.enterWanted(w, w.prefix)
	}
	return nil
}

func (r *Relay) enterWanted(w *tracksWatch, prefix moqt.Namespace) {
	w.prefix = prefix
	at := w.peer.place(prefix)
	r.wanted.add(at, w)
	for h := range r.hubTree.under(at) {
		h.offer(w)
	}
}

func (r *Relay) rewant(w *tracksWatch, prefix moqt.Namespace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted.remove(w.peer.place(w.prefix), w)
	r.enterWanted(w, prefix)
}

func (r *Relay) unwant(w *tracksWatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted.remove(w.peer.place(w.prefix), w)
}

// offer sends PUBLISH for the track, if a publisher has, to a peer that has not got it in another way. Relay.mu is held.
func (h *hub) offer(w *tracksWatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isOffered() || h.up[w.peer] != nil || h.hasSubscriber(w.peer) || w.isBlocked(h.name) {
		return
	}
	params := w.request.Message.Parameters
	d := newDownstream(h, w.peer, &moqt.Parameters{Forward: params.Forward}, nil)
	d.offered = true
	largest := h.data.Largest()
	pub, err := w.peer.session.TryPublish(moqt.Publish{
		Track:      h.name,
		Parameters: moqt.Parameters{Forward: params.Forward, LargestObject: largest},
		Properties: h.properties,
	})
	if errors.Is(err, transport.ErrStreamLimit) {
		w.block(h.name)
	}
	if err != nil {
		return
	}
	d.pub, d.accepted = pub, true
	d.permit = w.permit(pub.Context())
	close(d.ready)
	d.openOutlet(&moqt.Parameters{})
	h.down[d] = struct{}{}
	h.refs++ // Relay.mu is held
	h.refresh()
	h.join(d)
	h.relay.tasks.Go(d.runOffered)
}

// permit is for a track that was offered: it lasts for as long as the peer may have the tracks of the prefix. Relay.mu is held.
func (w *tracksWatch) permit(ctx context.Context) *lease {
	return &lease{
		peer: w.peer, ctx: ctx, tokens: w.request.Tokens(), action: ActionSubscribeTracks,
		track: moqt.FullTrackName{Namespace: w.prefix}, due: w.peer.relay.reviews.next(),
	}
}

// isOffered reports whether a publisher sent PUBLISH for the track; mu is held.
func (h *hub) isOffered() bool {
	for _, u := range h.up {
		if u.offered && u.established {
			return true
		}
	}
	return false
}

func (h *hub) hasSubscriber(p *peer) bool {
	for d := range h.down {
		if d.peer == p {
			return true
		}
	}
	return false
}

func (w *tracksWatch) isBlocked(name moqt.FullTrackName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, blocked := w.blocked[name.Key()]
	return blocked
}

// block tells the peer that it has no stream for a PUBLISH. The track is not offered again (draft §6.1).
func (w *tracksWatch) block(name moqt.FullTrackName) {
	w.mu.Lock()
	w.blocked[name.Key()] = struct{}{}
	w.mu.Unlock()
	_ = w.request.Blocked(name) // fails only if the request is over
}

// runOffered serves a subscription that began with PUBLISH of the relay.
func (d *downstream) runOffered() {
	defer d.hub.relay.release(d.hub)
	d.begin(d.pub.Context())
	if d.pub.Wait(context.Background()) != nil {
		d.ended()
		return
	}
	d.hub.mu.Lock()
	p, forward := d.pub.Parameters(), d.pub.Forward()
	p.Forward = &forward // absent means 1
	if p.Order(moqt.Ascending) == moqt.Descending {
		d.former = append(d.former, d.outlet) // streams keep the order that they were opened with
		d.openOutlet(&p)
	}
	d.apply(&p, d.hub.data.Largest())
	d.hub.mu.Unlock()
	d.run()
}
