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

func (a *announcement) at() place { return a.peer.place(a.namespace) }

// serve accepts the request, and keeps the namespace known until the request ends.
func (a *announcement) serve(req *session.IncomingPublishNamespace, permit *permission) {
	directory := &a.peer.relay.directory
	if a.peer.awaitMatches(req.Context(), directory.countBelow(a.at())) != nil {
		return // the request is over
	}
	directory.announce(a) // before the answer: after it, the publisher may rely on being found
	defer directory.withdraw(a)
	if req.OK() != nil {
		return
	}
	if withdrawn := permit.keep(req.Request, nil); withdrawn {
		directory.revoke(a)
	}
}

// namespaceWatch is an accepted SUBSCRIBE_NAMESPACE.
type namespaceWatch struct {
	prefixWatch
	request *session.IncomingSubscribeNamespace
}

// foundLocked tells the peer about a namespace; directory.mu is held.
func (w *namespaceWatch) foundLocked(a *announcement) {
	if ns, ok := a.namespaceFor(w.peer); ok {
		_ = w.request.Add(ns, moqt.Parameters{}) // fails only if the request is over
	}
}

// lostLocked tells the peer that a namespace is not published any more; directory.mu is held.
func (w *namespaceWatch) lostLocked(a *announcement) {
	if ns, ok := a.namespaceFor(w.peer); ok {
		_ = w.request.Remove(ns) // fails only if the request is over
	}
}
