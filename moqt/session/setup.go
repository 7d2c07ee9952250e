package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"sluice/moqt"
	"sluice/transport"
)

// Peer is what the peer's SETUP says about it.
type Peer struct {
	// Implementation is its MOQT_IMPLEMENTATION. It is not to be trusted.
	Implementation string
	// Authority and Path are what a client connects to, from SETUP on raw QUIC and from the CONNECT request on
	// WebTransport. They are well-formed; whether they are known here is for the application to say.
	Authority, Path string
	// Tokens authorize the session. They all have a value.
	Tokens []moqt.Token
}

// openControl opens our control stream (draft §3.3), on which SETUP is queued already.
func (s *Session) openControl() {
	stream, err := s.conn.OpenUniStreamSync(s.ctx)
	if err != nil {
		s.failUnlessEnded(fmt.Errorf("open the control stream: %w", err))
		return
	}
	s.control.open(stream)
	context.AfterFunc(stream.Context(), func() {
		_, err := stream.Write(nil) // tells why
		s.controlFailed(err)
	})
}

// controlFailed is called when the peer does not take what we send on our control stream.
func (s *Session) controlFailed(err error) {
	_, ended := errors.AsType[*transport.SessionError](err)
	switch {
	case ended:
	case errors.Is(err, errStalled), errors.Is(err, os.ErrDeadlineExceeded):
		s.fail(&moqt.ProtocolError{
			Code: moqt.SessionControlMessageTimeout, Reason: "the control stream is not read",
		})
	default:
		s.failLater(violation("the control stream is refused"))
	}
}

func (s *Session) setup() *moqt.Setup {
	m := &moqt.Setup{
		AuthorizationTokens:   s.cfg.Tokens,
		MaxAuthTokenCacheSize: uint64(s.cfg.MaxAuthTokenCacheSize),
		Unknown:               []moqt.KeyValuePair{greaseOption()},
	}
	if s.cfg.Implementation != "-" {
		m.Implementation = s.cfg.Implementation
	}
	if s.cfg.Role == Client && s.conn.Kind() == transport.RawQUIC {
		m.Path = &s.cfg.Path
		if s.cfg.Authority != "" {
			m.Authority = &s.cfg.Authority
		}
	}
	return m
}

// sendSetup queues our SETUP. It finds the mistakes in the configuration that the peer would close the session for.
func (s *Session) sendSetup() error {
	m := s.setup()
	if err := s.control.send(m); err != nil {
		return err
	}
	peer := moqt.Context{
		Stream:       moqt.MessageSetup,
		Server:       s.cfg.Role == Client,
		WebTransport: s.conn.Kind() == transport.WebTransport,
	}
	return peer.Check(s.version, m)
}

// greaseOption is an option that peers have to ignore (draft §14).
func greaseOption() moqt.KeyValuePair {
	typ := moqt.Grease(rand.Uint64())
	if typ%2 == 0 {
		return moqt.KeyValuePair{Type: typ, Value: rand.Uint64() >> 1}
	}
	return moqt.KeyValuePair{Type: typ, Bytes: []byte("grease")}
}

// acceptSetup checks the peer's SETUP, and lets everything that waits for it proceed.
func (s *Session) acceptSetup(m *moqt.Setup) error {
	tokens, err := s.tokens.resolveSetup(m.AuthorizationTokens)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.ownTokens.setLimit(m.MaxAuthTokenCacheSize, s.cfg.Tokens)
	s.mu.Unlock()
	s.peer = Peer{
		Implementation: m.Implementation,
		Authority:      s.conn.Authority(),
		Path:           s.conn.Path(),
		Tokens:         tokens,
	}
	if m.Authority != nil {
		s.peer.Authority = *m.Authority
	}
	if m.Path != nil {
		s.peer.Path = *m.Path
	}
	if err := s.cfg.Handler.HandleSetup(s, s.peer); err != nil {
		return unauthorized(err)
	}
	s.log.Debug("setup", "implementation", m.Implementation, "authority", s.peer.Authority, "path", s.peer.Path)
	close(s.ready)
	return nil
}

// unauthorized makes UNAUTHORIZED of an error that has no code of its own.
func unauthorized(err error) error {
	if _, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		return err
	}
	return &moqt.ProtocolError{Code: moqt.SessionUnauthorized, Reason: err.Error()}
}

// checkSetup ends a session whose peer has not sent SETUP in time.
func (s *Session) checkSetup() {
	if !s.isReady() {
		s.fail(&moqt.ProtocolError{Code: moqt.SessionControlMessageTimeout, Reason: "no SETUP"})
	}
}
