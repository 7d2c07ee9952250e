package session

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// runControl reads the peer's control stream (draft §3.3). It ends with the session.
func (s *Session) runControl(h *headerReader) error {
	s.mu.Lock()
	second := s.controlTaken
	s.controlTaken = true
	s.mu.Unlock()
	if second {
		return violation("second control stream")
	}
	in := s.newInbox(h.stream, h.b...)
	for {
		m, err := in.next()
		if err == nil {
			err = s.receiveControl(m)
		}
		_, reset := errors.AsType[*transport.StreamError](err)
		switch {
		case errors.Is(err, io.EOF):
			s.failLater(violation("the control stream was closed"))
			return nil
		case reset:
			s.failLater(violation("the control stream was reset"))
			return nil
		case err != nil:
			return err
		}
	}
}

// failLater ends the session when what is on its way had time to arrive: clients in use that have published all they
// want drop their control streams first, while their last objects are still being sent.
func (s *Session) failLater(err error) {
	s.after(s.cfg.Timeouts.Drain, func() { s.fail(err) })
}

func (s *Session) receiveControl(m moqt.Message) error {
	s.log.Debug("receive", "message", m.Type())
	where := moqt.Context{
		Stream:       moqt.MessageSetup,
		Server:       s.cfg.Role == Server,
		WebTransport: s.conn.Kind() == transport.WebTransport,
	}
	if err := where.Check(s.version, m); err != nil {
		return err
	}
	setup, isSetup := m.(*moqt.Setup)
	switch {
	case isSetup == s.isReady():
		return violation("%s out of order on the control stream", m.Type())
	case isSetup:
		return s.acceptSetup(setup)
	}
	return s.receiveGoaway(m.(*moqt.Goaway))
}

func (s *Session) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

func (s *Session) receiveGoaway(m *moqt.Goaway) error {
	s.mu.Lock()
	second := s.goawayTaken
	s.goawayTaken = true
	s.mu.Unlock()
	if second {
		return violation("second GOAWAY on the control stream")
	}
	s.spawn(func() { s.cfg.Handler.HandleGoaway(s, *m) })
	return nil
}

// Goaway tells the peer that the session will end (draft §3.6, §10.4): the peer should move to a session at the URI,
// or at the current one if it is empty. Clients must leave it empty. New requests of the peer are refused from now on.
// After the timeout the session is closed; 0 leaves it open. It can be sent once.
func (s *Session) Goaway(uri string, timeout time.Duration) error {
	if uri != "" && s.cfg.Role == Client {
		return errURIOfClient
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.goawaySent {
		return errGoawayTwice
	}
	id := s.ids.next()
	if err := s.control.send(&moqt.Goaway{NewSessionURI: uri, Timeout: milliseconds(timeout), RequestID: &id}); err != nil {
		return err
	}
	s.goawaySent = true
	if timeout > 0 {
		s.after(timeout, s.goawayTimedOut)
	}
	return nil
}

var (
	errURIOfClient = errors.New("a client cannot tell a server where to go (draft §10.4)")
	errGoawayTwice = errors.New("GOAWAY was sent before")
)

// goawayTimedOut closes the session after the timeout of our GOAWAY.
func (s *Session) goawayTimedOut() {
	s.mu.Lock()
	open := len(s.requests)
	s.mu.Unlock()
	if open == 0 {
		s.Close(moqt.SessionNoError, "")
		return
	}
	s.Close(moqt.SessionGoawayTimeout, "requests are open after the timeout of GOAWAY")
}

// Goaway asks the peer to move this request to a session at the URI, or to repeat it on this one if the URI is empty
// (draft §10.4). Clients must leave it empty. After the timeout the request is reset; 0 leaves it open. It can be sent
// once, and not before the response to a request of the peer.
func (r *Request) Goaway(uri string, timeout time.Duration) error {
	if uri != "" && r.s.cfg.Role == Client {
		return errURIOfClient
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	switch {
	case r.over:
		return context.Cause(r.ctx)
	case r.goawaySent:
		return errGoawayTwice
	case r.remote && !r.answered:
		return ErrUnanswered
	}
	if err := r.out.send(&moqt.Goaway{NewSessionURI: uri, Timeout: milliseconds(timeout)}); err != nil {
		return err
	}
	r.goawaySent = true
	if timeout > 0 {
		r.s.after(timeout, func() { r.Cancel(moqt.ResetGoingAway) })
	}
	return nil
}

// after calls f after d, unless the session has ended.
func (s *Session) after(d time.Duration, f func()) {
	timer := time.AfterFunc(d, f)
	context.AfterFunc(s.ctx, func() { timer.Stop() })
}

// milliseconds rounds a time up to what messages carry.
func milliseconds(d time.Duration) uint64 {
	return uint64(min(max(d, 0), math.MaxInt64-time.Millisecond)+time.Millisecond-1) / uint64(time.Millisecond)
}
