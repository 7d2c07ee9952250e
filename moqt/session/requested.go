package session

import (
	"context"

	"sluice/moqt"
)

// RequestInfo describes a request of a peer, without its tokens.
type RequestInfo struct {
	Remote  string // address of the peer
	Version moqt.Version
	Type    moqt.MessageType
	Track   moqt.FullTrackName // without a name in a request about namespaces; empty in one that joins a subscription
}

// awaitedAnswer tells the application what becomes of a request of the peer, once. s.mu guards it.
type awaitedAnswer struct{ done func(error) }

// beginLocked tells of the request, if the application wants that. s.mu is held.
func (a *awaitedAnswer) beginLocked(r *Request, track moqt.FullTrackName) {
	s := r.s
	if s.cfg.Requested == nil {
		return
	}
	a.done = s.cfg.Requested(RequestInfo{s.conn.RemoteAddr().String(), s.version, r.kind, track})
	context.AfterFunc(r.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		a.tell(context.Cause(r.ctx))
	})
}

func (a *awaitedAnswer) tell(err error) {
	if done := a.done; done != nil {
		a.done = nil
		done(err)
	}
}
