package session

import (
	"context"
	"errors"
	"time"

	"sluice/moqt"
)

// sentUpdates are the updates of a request that this end sends (draft §10.9).
type sentUpdates struct {
	r *Request

	// Guarded by s.mu.
	unanswered []*sentUpdate // oldest first
	answered   chan struct{} // closed when a response arrives, if somebody waits for that
	ignorable  int           // responses that may follow the refusal of several updates
}

type sentUpdate struct {
	apply func(*moqt.RequestOK) // called when it was accepted, with s.mu held; may be nil
	done  chan struct{}         // closed when the response has arrived
	ok    *moqt.RequestOK
	err   *moqt.RequestError
}

// update sends a REQUEST_UPDATE and waits for the response.
func (s *sentUpdates) update(
	ctx context.Context, p moqt.Parameters, apply func(*moqt.RequestOK),
) (*moqt.RequestOK, error) {
	u := &sentUpdate{apply: apply, done: make(chan struct{})}
	r := s.r
	for {
		wait, err := s.send(u, p)
		if err == nil && wait != nil {
			err = r.await(ctx, wait)
		}
		if err != nil {
			return nil, err
		}
		if wait == nil {
			break
		}
	}
	timer := time.AfterFunc(r.s.cfg.ResponseTimeout, func() { r.abort(moqt.ResetCancelled, ErrTimeout) })
	defer timer.Stop()
	if err := r.await(ctx, u.done); err != nil {
		return nil, err
	}
	if u.err != nil {
		return nil, u.err
	}
	return u.ok, nil
}

// send sends an update. If the peer takes no more updates without a response (draft-20 §10.3.1.7), or no more Request
// IDs, it returns a channel that is closed when the caller should try again.
func (s *sentUpdates) send(u *sentUpdate, p moqt.Parameters) (wait <-chan struct{}, err error) {
	r := s.r
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	switch limit := r.s.control.peerUpdates(); {
	case r.over:
		return nil, context.Cause(r.ctx)
	case r.remote && !r.answered:
		return nil, ErrUnanswered
	case limit > 0 && uint64(len(s.unanswered)) >= limit:
		if s.answered == nil {
			s.answered = make(chan struct{})
		}
		return s.answered, nil
	}
	if shared := r.s.shared; shared != nil {
		return shared.update(r, func() error { return s.sendLocked(u, p) })
	}
	return nil, s.sendLocked(u, p)
}

func (s *sentUpdates) sendLocked(u *sentUpdate, p moqt.Parameters) error {
	if err := s.r.s.requester.mayFilter(&p); err != nil {
		return err
	}
	if err := s.r.s.requester.sendLocked(s.r, &moqt.RequestUpdate{Parameters: p}); err != nil {
		return err
	}
	s.unanswered = append(s.unanswered, u)
	return nil
}

// receiveResponse takes the response to the oldest update. A peer that applies several updates at once sends a single
// REQUEST_ERROR for all of them (draft §10.9.1).
func (s *sentUpdates) receiveResponse(m moqt.Message) error {
	r := s.r
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if len(s.unanswered) == 0 {
		if s.ignorable > 0 {
			s.ignorable--
			return nil
		}
		return violation("%s without a request that it answers", m.Type())
	}
	answered := s.unanswered[:1]
	e, failed := m.(*moqt.RequestError)
	if failed {
		answered = s.unanswered
		s.ignorable = len(answered) - 1
	}
	s.unanswered = s.unanswered[len(answered):]
	if s.answered != nil {
		close(s.answered)
		s.answered = nil
	}
	for _, u := range answered {
		u.err = e
		if u.ok, _ = m.(*moqt.RequestOK); u.ok != nil && u.apply != nil {
			u.apply(u.ok)
		}
		close(u.done)
	}
	return nil
}

// maxUnansweredUpdates is the number of updates of a request that the peer may send without waiting for responses. More
// than a few are pointless, because later updates override earlier ones.
const maxUnansweredUpdates = 16

// errTooManyUpdates ends a request whose peer does not wait for responses.
var errTooManyUpdates = errors.New("the peer sent too many updates")

// Update is a REQUEST_UPDATE of the peer. Answer it with OK or Reject.
type Update struct {
	// ID is the Request ID of the message.
	ID uint64
	// Parameters has the parameters that change.
	Parameters moqt.Parameters
	// Tokens are the authorization tokens among them. They all have a value.
	Tokens []moqt.Token

	r       *Request
	refused *moqt.RequestError // why the session itself refuses it
	repeats bool               // it came as another PUBLISH_NAMESPACE, which has no response
}

// OK accepts the update; parameters go into the REQUEST_UPDATE_OK. It returns a *[moqt.RequestError] if the session had
// to refuse the update instead. The caller then does what [Update.Reject] says.
func (u *Update) OK(parameters moqt.Parameters) error {
	refused, err := u.accept(parameters)
	if refused == nil || err != nil {
		return err
	}
	u.r.s.cfg.Refused(refused.Code)
	if err := u.Reject(refused); err != nil {
		return err
	}
	return refused
}

// accept applies and answers the update, or returns why it has to be refused.
func (u *Update) accept(parameters moqt.Parameters) (*moqt.RequestError, error) {
	u.r.s.mu.Lock()
	defer u.r.s.mu.Unlock()
	if err := u.mayAnswerLocked(); err != nil {
		return nil, err
	}
	if u.refused != nil {
		return u.refused, nil
	}
	if refused := u.r.role.updateLocked(u, &parameters); refused != nil {
		return refused, nil
	}
	return nil, u.answerLocked(&moqt.RequestOK{Parameters: parameters})
}

// Reject refuses the update. That ends the request (draft §10.9.1): for a subscription the publisher has to close its
// streams and then call Done with UPDATE_FAILED; a fetch or a namespace request has ended when Reject returns.
func (u *Update) Reject(e *moqt.RequestError) error {
	u.r.s.mu.Lock()
	err := u.answerLocked(e)
	u.r.s.mu.Unlock()
	if err == nil {
		u.r.role.updateFailed()
	}
	return err
}

// mayAnswerLocked returns an error if the update cannot be answered now. s.mu is held.
func (u *Update) mayAnswerLocked() error {
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

// answerLocked sends the response. s.mu is held.
func (u *Update) answerLocked(m moqt.Message) error {
	if err := u.mayAnswerLocked(); err != nil {
		return err
	}
	r := u.r
	if !u.repeats {
		if err := r.out.send(moqt.Reference{RequestID: u.ID}, m, false); err != nil {
			return err
		}
	}
	r.peerUpdates = r.peerUpdates[1:]
	_, accepted := m.(*moqt.RequestOK)
	u.settleTokensLocked(accepted)
	if len(r.peerUpdates) == 0 {
		r.s.table.notify()
	}
	return nil
}

// settleTokensLocked gives the tokens of an accepted update to the request, and forgets tokens that no longer count.
// s.mu is held.
func (u *Update) settleTokensLocked(accepted bool) {
	obsolete := u.Tokens
	if accepted && len(u.Tokens) > 0 {
		obsolete, u.r.tokens = u.r.tokens, u.Tokens
	}
	u.r.s.responder.kept.remove(obsolete)
}
