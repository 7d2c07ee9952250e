package relay

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// GuestConfig describes a [Guest].
type GuestConfig struct {
	Kind      transport.Kind
	Remote    net.Addr     // of the client
	Tokens    []moqt.Token // that it has shown
	Authority string       // what it has connected to, as for AuthRequest
	Path      string

	// Action is what the guest asks permission for, as a peer does by the message of the action.
	Action Action
	Track  moqt.FullTrackName
}

// Guest is a client of another protocol than MoQT, which a server beside the relay serves. It needs the permission of a
// peer, and what it uses is charged to the same accounts: it is a session of its address and its token.
type Guest struct {
	relay  *Relay
	ask    AuthRequest
	payers payers
	ctx    context.Context
	end    context.CancelCauseFunc
	left   sync.Once
	began  time.Time

	carrier                 atomic.Value // string
	received, sent, dropped atomic.Uint64
	kernel, process         atomic.Uint64 // packets, by who has sent them
}

// ErrWithdrawn is the cause of a Guest's context when its permission has ended.
var ErrWithdrawn = errors.New("the permission has ended")

// Admit makes a client a guest, until Leave. To refuse, it returns a *moqt.RequestError.
func (r *Relay) Admit(ctx context.Context, cfg GuestConfig) (*Guest, error) {
	address, refused := r.accounts.openAddress(transport.SourceOf(cfg.Remote))
	if refused != nil {
		return nil, refused
	}
	g := &Guest{relay: r, payers: payers{address}, began: time.Now(), ask: AuthRequest{
		Action: cfg.Action, Namespace: cfg.Track.Namespace, Name: cfg.Track.Name, Tokens: cfg.Tokens,
		Authority: cfg.Authority, Path: cfg.Path, Remote: cfg.Remote,
		Kind: cfg.Kind,
	}}
	g.ctx, g.end = context.WithCancelCause(context.Background())
	if refused := g.enter(ctx); refused != nil {
		g.Leave()
		r.metrics.refused(refused.Code)
		return nil, refused
	}
	return g, nil
}

// enter charges the accounts and asks for the permission. The address is charged before the Authorizer is asked, which
// may cost more than the guest itself.
func (g *Guest) enter(ctx context.Context) *moqt.RequestError {
	r := g.relay
	if !r.sessions.addGuest(g) {
		return &moqt.RequestError{Code: moqt.RequestExcessiveLoad, Reason: errTooManySessions.Error()}
	}
	context.AfterFunc(g.ctx, func() { r.sessions.removeGuest(g) })
	if refused := g.charge(g.payers[0]); refused != nil {
		return refused
	}
	if refused := r.accounts.chargeRelay(g.ctx); refused != nil {
		return refused
	}
	due := r.reviews.next()
	grant, refused := g.authorize(ctx)
	if refused != nil {
		return refused
	}
	if grant.Subject != "" {
		token, refused := r.accounts.openToken(grant.Subject)
		if refused != nil {
			return refused
		}
		g.payers = append(g.payers, token)
		if refused := g.charge(token); refused != nil {
			return refused
		}
	}
	go g.keep(newTerm(grant), due)
	return nil
}

// charge takes what the guest's request uses from an account, until the guest leaves.
func (g *Guest) charge(a *account) *moqt.RequestError {
	switch {
	case !a.Allow():
		return a.refusal(requestRate)
	case g.ask.Action == ActionSubscribe && a.download.inDebt():
		return a.refuse(downloadRate)
	}
	return a.charge(g.ctx, usesOf(g.ask.Action))
}

func (g *Guest) authorize(ctx context.Context) (Grant, *moqt.RequestError) {
	grant, err := g.relay.cfg.Authorizer.Authorize(ctx, g.ask)
	if err == nil {
		return grant, nil
	}
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		g.relay.log.Error("cannot authorize", "remote", g.ask.Remote, "namespace", g.ask.Namespace, "err", err)
		refused = &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "authorization failed"}
	}
	return Grant{}, refused
}

// term is for how long a Grant holds: until expired sends, or until a review after stale has sent.
type term struct{ expired, stale <-chan time.Time }

func newTerm(g Grant) (t term) {
	if !g.Expires.IsZero() {
		t.expired = time.After(time.Until(g.Expires))
	}
	if !g.Review.IsZero() {
		t.stale = time.After(max(minReview, time.Until(g.Review)))
	}
	return t
}

// keep ends the guest when the permission ends.
func (g *Guest) keep(t term, due <-chan struct{}) {
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.expired:
			g.end(ErrWithdrawn)
			return
		case <-due:
		case <-t.stale:
		}
		due = g.relay.reviews.next()
		grant, refused := g.authorize(g.ctx)
		switch {
		case refused == nil:
			t = newTerm(grant)
		case isNoAnswer(refused):
			t.stale = time.After(reviewRetry)
		default:
			g.end(ErrWithdrawn)
			return
		}
	}
}

// Context is done when the guest may not stay: its cause is then ErrWithdrawn. It is also done after Leave.
func (g *Guest) Context() context.Context { return g.ctx }

// Leave ends what Admit began.
func (g *Guest) Leave() {
	g.left.Do(func() {
		g.end(context.Canceled)
		g.payers.give(sessionsOpen)
	})
}

// Upload counts bytes of media that the guest has sent, and reports whether they may be used: not if an account has
// sent more than its quota allows.
func (g *Guest) Upload(n int) bool {
	if g.payers.refuseUpload() {
		return false
	}
	g.payers.upload(n)
	g.received.Add(uint64(n))
	return true
}

// Download counts bytes of media for the guest, and reports whether they may be sent: not if an account has received
// more than its quota allows.
func (g *Guest) Download(n int) bool {
	for _, a := range g.payers {
		if a.download.inDebt() {
			a.refuse(downloadRate)
			return false
		}
	}
	for _, a := range g.payers {
		a.received(uint64(n))
	}
	g.sent.Add(uint64(n))
	return true
}
