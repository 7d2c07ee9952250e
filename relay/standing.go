package relay

import (
	"sync"

	"sluice/moqt"
)

// standing is what lets a session stay whose SETUP has tokens. Nobody is asked whether these tokens are good for the
// session itself: they are if they have allowed a request. So the first permission that they gave stands for the
// session, also after its request has ended. When it ends, another permission of the session takes its place; without
// one the session ends.
type standing struct {
	peer *peer

	mu     sync.Mutex
	all    map[*permission]struct{} // in force
	bearer *permission              // stands for the session; nil: the session needs none yet
}

// add enters a permission.
func (s *standing) add(m *permission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*permission]struct{})
	}
	s.all[m] = struct{}{}
	setup := len(s.peer.Setup.Tokens)
	if s.bearer == nil && setup > 0 && len(m.tokens(nil)) == setup {
		s.bearer = m
	}
}

// done releases the permission of a request that has ended, unless it stands for the session.
func (s *standing) done(m *permission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m == s.bearer && s.peer.Session.Context().Err() == nil {
		return
	}
	delete(s.all, m)
	m.Release()
}

// lose removes a permission that was lost, and ends the session if nothing else stands for it.
func (s *standing) lose(m *permission, why *moqt.RequestError) {
	s.mu.Lock()
	delete(s.all, m)
	ends := m == s.bearer && len(s.all) == 0
	if m == s.bearer {
		s.bearer = nil
		for other := range s.all {
			s.bearer = other
			break
		}
	}
	s.mu.Unlock()
	if !ends {
		return
	}
	code := moqt.SessionUnauthorized
	if why.Code == moqt.RequestExpiredAuthToken {
		code = moqt.SessionExpiredAuthToken
	}
	s.peer.Session.Close(code, why.Reason)
}

// close releases the rest when the session has ended.
func (s *standing) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.all {
		delete(s.all, m)
		m.Release()
	}
}
