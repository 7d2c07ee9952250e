package relay

import (
	"context"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// watch is a request for everything below a namespace prefix.
type watch interface {
	// Enter begins with a prefix, or goes on with another one, if admit admits as many values as match it. tell tells
	// of them, and is nil if it did not.
	Enter(prefix moqt.Namespace, admit func(n int) bool) (tell func(context.Context))
	Leave()
}

// retryMatching is the time after which a prefix may match something again: 1,000 values by default.
const retryMatching = time.Second

var errTooManyMatches = &moqt.RequestError{
	Code: moqt.RequestNamespaceTooLarge, Reason: "the prefix matches too much; use a longer one",
}

// errTooOften returns the refusal of a prefix whose session has had its share of matches for now.
func errTooOften() *moqt.RequestError {
	e := &moqt.RequestError{
		Code: moqt.RequestExcessiveLoad, Reason: "the prefixes of the session match too much; use longer ones, or wait",
	}
	e.SetRetry(retryMatching)
	return e
}

// serveWatch serves a request for everything below a prefix until it ends. begin makes a watch of it, when it is
// permitted.
func serveWatch(
	p *peer, r *session.Request, a Action, prefix moqt.Namespace, accept func() error, begin func(*permission) watch,
) {
	permit, refused := p.authorize(r, a, moqt.FullTrackName{Namespace: prefix})
	if refused != nil {
		p.Reject(r, refused)
		return
	}
	w := begin(permit)
	defer p.relay.sessions.watched()
	defer w.Leave()
	start := func(prefix moqt.Namespace, accept func() error) (refused *moqt.RequestError) {
		tell := w.Enter(prefix, func(n int) bool {
			refused = p.admitMatches(n)
			return refused == nil && accept() == nil
		})
		p.relay.sessions.watched()
		if tell != nil {
			tell(r.Context())
		}
		return refused
	}
	permit.Hold(permit.cancel)
	if refused := start(prefix, accept); refused != nil {
		p.Reject(r, refused)
		return
	}
	permit.keep(start)
}
