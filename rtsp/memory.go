package rtsp

import (
	"net/netip"
	"sync"
)

// pool is memory that all publishers and MoQ broadcasts have together, in bytes. One is for the bridge between RTSP and
// MoQ: frames and chunks that are taken apart or wait. Another is for packets that are kept for players. A peer may
// have as much as is free, so one alone gets at most half.
type pool struct {
	max     int64
	refused func()

	mu   sync.Mutex
	used int64
	of   map[netip.Prefix]int64 // by source addresses
}

func newPool(most int64, refused func()) *pool {
	return &pool{max: most, refused: refused, of: make(map[netip.Prefix]int64)}
}

func (m *pool) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// share is the part of the pool that one publisher or one MoQ broadcast has. It is charged to a source address: the
// publisher's, or the address of the player that wanted the broadcast first. It implements sub.Memory and pub.Memory.
// On a nil share everything is granted.
type share struct {
	pool   *pool
	source netip.Prefix

	used  int64 // guarded by pool.mu
	ended bool
}

func (m *pool) share(source netip.Prefix) *share { return &share{pool: m, source: source} }

// Take reports whether there are n bytes. Then they have to be given back, by Give or end.
func (s *share) Take(n int) bool {
	if s == nil {
		return true
	}
	m := s.pool
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.ended {
		return false
	}
	if more := int64(n); m.of[s.source]+more > m.max-m.used-more {
		m.refused()
		return false
	}
	s.addLocked(int64(n))
	return true
}

// Give gives n bytes back.
func (s *share) Give(n int) {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if !s.ended {
		s.addLocked(-int64(n))
	}
}

// end gives everything back. Afterwards nothing can be taken.
func (s *share) end() {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.addLocked(-s.used)
	s.ended = true
}

// isShort reports whether the share's address has more than half of its limit, which is half of what others leave.
func (s *share) isShort() bool {
	if s == nil {
		return false
	}
	m := s.pool
	m.mu.Lock()
	defer m.mu.Unlock()
	return 3*m.of[s.source] > m.max-m.used
}

func (s *share) addLocked(n int64) {
	m := s.pool
	s.used += n
	m.used += n
	if m.of[s.source] += n; m.of[s.source] == 0 {
		delete(m.of, s.source)
	}
}
