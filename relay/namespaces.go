package relay

import (
	"sluice/moqt"
	"sluice/moqt/session"
)

// announcement is an accepted PUBLISH_NAMESPACE.
type announcement struct {
	peer      *peer
	namespace moqt.Namespace
}

func (a *announcement) place() place { return a.peer.place(a.namespace) }

// namespaceWatch is an accepted SUBSCRIBE_NAMESPACE.
type namespaceWatch struct {
	peer    *peer
	request *session.IncomingSubscribeNamespace
	prefix  moqt.Namespace // guarded by Relay.mu
}

// HandlePublishNamespace implements session.Handler (draft §6.2).
func (p *peer) HandlePublishNamespace(req *session.IncomingPublishNamespace) {
	name := moqt.FullTrackName{Namespace: req.Message.Namespace}
	permit, refused := p.authorize(req.Request, ActionPublishNamespace, name)
	if refused != nil {
		p.reject(req.Request, refused)
		return
	}
	a := &announcement{p, req.Message.Namespace}
	p.relay.announce(a) // before the answer, after which the publisher may count on being found
	defer p.relay.withdraw(a)
	if req.OK() != nil {
		return
	}
	if p.keep(req.Request, permit, nil) {
		p.relay.revoke(a)
	}
}

// announce makes a namespace known: to those that watch it, and as a source of the tracks that are wanted (draft §9.5).
func (r *Relay) announce(a *announcement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announced.add(a.place(), a)
	for w := range r.watches.matching(a.place()) {
		w.add(a.namespace)
	}
	for h := range r.hubTree.under(a.place()) {
		h.announced(a.peer)
	}
}

func (r *Relay) withdraw(a *announcement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announced.remove(a.place(), a)
	if len(r.announced.at(a.place())) > 0 {
		return
	}
	for w := range r.watches.matching(a.place()) {
		_ = w.request.Remove(a.namespace) // fails only if the request is over
	}
}

// revoke ends the subscriptions at a peer that may no longer publish in a namespace, unless it may in another one that has them too.
func (r *Relay) revoke(a *announcement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.hubTree.under(a.place()) {
		if !r.announces(a, h.place) {
			h.revoke(a.peer)
		}
	}
}

// announces reports whether the peer of a has announced a namespace in another way.
func (r *Relay) announces(a *announcement, at place) bool {
	for o := range r.announced.matching(at) {
		if o != a && o.peer == a.peer {
			return true
		}
	}
	return false
}

func (h *hub) revoke(p *peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.up[p]; u != nil && !u.offered {
		u.cancel(moqt.ResetExpiredAuthToken)
	}
}

// publishersOf returns the peers that announced the namespace at a place or a prefix of it.
func (r *Relay) publishersOf(at place) []*peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	var peers []*peer
	for a := range r.announced.matching(at) {
		peers = append(peers, a.peer)
	}
	return peers
}

func (w *namespaceWatch) add(ns moqt.Namespace) {
	_ = w.request.Add(ns) // fails only if the request is over
}

// HandleSubscribeNamespace implements session.Handler (draft §6.1).
func (p *peer) HandleSubscribeNamespace(req *session.IncomingSubscribeNamespace) {
	w := &namespaceWatch{peer: p, request: req, prefix: req.Message.Prefix}
	name := moqt.FullTrackName{Namespace: w.prefix}
	permit, refused := p.authorize(req.Request, ActionSubscribeNamespace, name)
	if refused == nil {
		refused = p.relay.watch(w)
	}
	if refused != nil {
		p.reject(req.Request, refused)
		return
	}
	defer p.relay.unwatch(w)
	p.keep(req.Request, permit, func(prefix moqt.Namespace) { p.relay.rewatch(w, prefix) })
}

// watch accepts a SUBSCRIBE_NAMESPACE and tells it of the namespaces that there are.
func (r *Relay) watch(w *namespaceWatch) *moqt.RequestError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := tooLarge(&r.announced, w.peer.place(w.prefix), r.cfg.MaxMatches); refused != nil {
		return refused
	}
	if w.request.OK() == nil {
		r.enterWatch(w, w.prefix)
	}
	return nil
}

func (r *Relay) enterWatch(w *namespaceWatch, prefix moqt.Namespace) {
	w.prefix = prefix
	at := w.peer.place(prefix)
	r.watches.add(at, w)
	for a := range r.announced.under(at) {
		w.add(a.namespace)
	}
}

func (r *Relay) rewatch(w *namespaceWatch, prefix moqt.Namespace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches.remove(w.peer.place(w.prefix), w)
	r.enterWatch(w, prefix)
}

func (r *Relay) unwatch(w *namespaceWatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches.remove(w.peer.place(w.prefix), w)
}

// tooLarge refuses a prefix that matches more than limit.
func tooLarge[T comparable](t *tree[T], prefix place, limit int) *moqt.RequestError {
	n := 0
	for range t.under(prefix) {
		if n++; n > limit {
			return &moqt.RequestError{Code: moqt.RequestNamespaceTooLarge, Reason: "the prefix matches too much; use a longer one"}
		}
	}
	return nil
}
