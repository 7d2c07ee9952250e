package session

import (
	"context"
	"errors"
	"time"

	"sluice/moqt"
)

// ownUpdate is an update that we sent.
type ownUpdate struct {
	apply func(*moqt.RequestOK) // called when it was accepted, with s.mu held; may be nil
	done  chan struct{}         // closed when the response has arrived
	ok    *moqt.RequestOK
	err   *moqt.RequestError
}

// update sends a REQUEST_UPDATE and waits for its response (draft §10.9).
func (r *Request) update(
	ctx context.Context, p moqt.Parameters, apply func(*moqt.RequestOK),
) (*moqt.RequestOK, error) {
	u := &ownUpdate{apply: apply, done: make(chan struct{})}
	if err := r.sendUpdate(u, p); err != nil {
		return nil, err
	}
	timer := time.AfterFunc(r.s.cfg.Timeouts.Response, func() { r.abort(moqt.ResetCancelled, ErrTimeout) })
	defer timer.Stop()
	if err := r.await(ctx, u.done); err != nil {
		return nil, err
	}
	if u.err != nil {
		return nil, u.err
	}
	return u.ok, nil
}

func (r *Request) sendUpdate(u *ownUpdate, p moqt.Parameters) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.over {
		return context.Cause(r.ctx)
	}
	if r.remote && !r.answered {
		return ErrUnanswered
	}
	if err := r.sendWithID(&moqt.RequestUpdate{Parameters: p}); err != nil {
		return err
	}
	r.ownUpdates = append(r.ownUpdates, u)
	return nil
}

// receiveUpdateResponse takes the response to our oldest update. A peer that applies several updates at once sends a
// single REQUEST_ERROR for all of them (draft §10.9.1).
func (r *Request) receiveUpdateResponse(m moqt.Message) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if len(r.ownUpdates) == 0 {
		if r.ignorable > 0 {
			r.ignorable--
			return nil
		}
		return violation("%s without a request that it answers", m.Type())
	}
	answered := r.ownUpdates[:1]
	e, failed := m.(*moqt.RequestError)
	if failed {
		answered = r.ownUpdates
		r.ignorable = len(answered) - 1
	}
	r.ownUpdates = r.ownUpdates[len(answered):]
	r.confirmTokens()
	for _, u := range answered {
		u.err = e
		if u.ok, _ = m.(*moqt.RequestOK); u.ok != nil && u.apply != nil {
			u.apply(u.ok)
		}
		close(u.done)
	}
	return nil
}

// errTooManyUpdates says that the peer does not wait for responses.
var errTooManyUpdates = errors.New("the peer sent too many updates")

// Update is a REQUEST_UPDATE of the peer. It has to be answered.
type Update struct {
	// Parameters are those that change.
	Parameters moqt.Parameters
	// Tokens are the authorization tokens among them. They all have a value.
	Tokens []moqt.Token

	r       *Request
	refused *moqt.RequestError // why the session itself refuses it
}

func (r *Request) receiveUpdate(m *moqt.RequestUpdate) error {
	s := r.s
	if err := s.ids.use(m.RequestID); err != nil {
		return err
	}
	tokens, repeated, err := s.tokens.resolve(m.Parameters.AuthorizationTokens)
	if err != nil {
		return err
	}
	if err := s.rate.Wait(r.ctx); err != nil {
		return nil // the request is over
	}
	u := &Update{Parameters: m.Parameters, Tokens: tokens, r: r}
	u.Parameters.AuthorizationTokens = nil
	if repeated {
		u.refused = refuse(moqt.RequestMalformedAuthToken, "an authorization token is repeated")
	}
	s.mu.Lock()
	full := len(r.peerUpdates) == maxUnansweredUpdates
	if !full {
		r.peerUpdates = append(r.peerUpdates, u)
		r.updates <- u // there is room: what is in the channel is in peerUpdates too
	}
	s.mu.Unlock()
	if full {
		r.abort(moqt.ResetExcessiveLoad, errTooManyUpdates)
	}
	return nil
}

// OK accepts the update; parameters are those of REQUEST_UPDATE_OK. It fails with a *[moqt.RequestError] if the
// session had to refuse the update instead. What [Update.Reject] says has to be done then.
func (u *Update) OK(parameters moqt.Parameters) error {
	refused, err := u.accept(parameters)
	if refused == nil || err != nil {
		return err
	}
	if err := u.Reject(refused); err != nil {
		return err
	}
	return refused
}

// accept applies and answers the update, or returns why it has to be refused.
func (u *Update) accept(parameters moqt.Parameters) (*moqt.RequestError, error) {
	u.r.s.mu.Lock()
	defer u.r.s.mu.Unlock()
	if err := u.mayAnswer(); err != nil {
		return nil, err
	}
	if u.refused != nil {
		return u.refused, nil
	}
	if refused := u.r.role.updating(u, &parameters); refused != nil {
		return refused, nil
	}
	return nil, u.answer(&moqt.RequestOK{Parameters: parameters})
}

// Reject refuses the update. That ends the request (draft §10.9.1): for a subscription the publisher has to close its
// streams and then call Done with UPDATE_FAILED; a fetch or a namespace request has ended when Reject returns.
func (u *Update) Reject(e *moqt.RequestError) error {
	u.r.s.mu.Lock()
	err := u.answer(e)
	u.r.s.mu.Unlock()
	if err == nil {
		u.r.role.updateFailed()
	}
	return err
}

// mayAnswer reports why the update cannot be answered now, with s.mu held.
func (u *Update) mayAnswer() error {
	r := u.r
	switch {
	case r.over:
		return context.Cause(r.ctx)
	case r.remote && !r.answered:
		return ErrUnanswered
	case len(r.peerUpdates) == 0 || r.peerUpdates[0] != u:
		return ErrAnswered
	}
	return nil
}

// answer sends the response, with s.mu held.
func (u *Update) answer(m moqt.Message) error {
	if err := u.mayAnswer(); err != nil {
		return err
	}
	r := u.r
	if err := r.out.send(m); err != nil {
		return err
	}
	r.peerUpdates = r.peerUpdates[1:]
	if len(r.peerUpdates) == 0 {
		r.s.notify()
	}
	return nil
}
