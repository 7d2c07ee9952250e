package relay

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/clock"
	"sluice/moqt"
	"sluice/relay/internal/hub"
)

var (
	errTooManySessions = errors.New("the relay has no room for another session; try again later")
	errDraining        = errors.New("the relay is going away; use another one")
)

// Sessions that have ended are listed for endedFor, as long as there are no more than maxEnded.
const (
	endedFor = time.Minute
	maxEnded = 256
)

// sessions are the connected peers, and the status of the ones that left last.
type sessions struct {
	limit int

	mu        sync.Mutex
	peers     map[*peer]struct{}
	neighbors map[*peer]*Neighbor // nil once closeNeighbors was called
	guests    map[*Guest]struct{}
	lastID    uint64          // of a session
	ended     []SessionStatus // in the order of their ends
	farewell  *farewell       // nil unless drain was called
	empty     chan struct{}   // closed when the last peer has left after that; nil then
	over      bool            // no more peers are taken
}

// add enters a peer, unless there is no room for it.
func (s *sessions) add(p *peer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return errDraining
	case len(s.peers)+len(s.guests) >= s.limit:
		return errTooManySessions
	}
	s.lastID++
	p.ID, p.since = s.lastID, time.Now()
	s.peers[p] = struct{}{}
	if s.farewell != nil {
		go s.farewell.say(p, true)
	}
	return nil
}

// addGuest enters a guest, unless there is no room for it or the relay is drained.
func (s *sessions) addGuest(g *Guest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.farewell != nil || len(s.peers)+len(s.guests) >= s.limit {
		return false
	}
	s.lastID++
	g.id = s.lastID
	s.guests[g] = struct{}{}
	return true
}

func (s *sessions) removeGuest(g *Guest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, g)
}

// listGuests returns the guests that have not ended. Those that have are removed by other goroutines.
func (s *sessions) listGuests() []*Guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Keys(s.guests))
	return slices.DeleteFunc(all, func(g *Guest) bool { return g.ctx.Err() != nil })
}

// addNeighbor enters a session with a neighbour, and shares namespaces with it, unless this relay has ended. They are
// neither limited nor drained: as long as there are subscribers, these need them.
func (s *sessions) addNeighbor(n *Neighbor) error {
	p := n.peer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.neighbors == nil {
		return errDraining
	}
	s.lastID++
	p.ID, p.since = s.lastID, time.Now()
	s.neighbors[p] = n
	p.relay.tasks.Go(n.share)
	return nil
}

// closeNeighbors ends the sessions with neighbours, for good.
func (s *sessions) closeNeighbors() {
	s.mu.Lock()
	peers := s.neighbors
	s.neighbors = nil
	s.mu.Unlock()
	closeSessions(inOrder(maps.Keys(peers)), "")
}

// at returns the neighbours at a distance.
func (s *sessions) at(d hub.Distance) []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.atLocked(d)
}

func (s *sessions) atLocked(d hub.Distance) []*peer {
	return slices.DeleteFunc(inOrder(maps.Keys(s.neighbors)), func(p *peer) bool { return p.From != d })
}

// watched makes the sessions with neighbours look at what subscribers watch.
func (s *sessions) watched() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range inOrder(maps.Keys(s.neighbors)) {
		s.neighbors[p].watches.Wake()
	}
}

// remove removes a peer whose session has ended, and keeps its status for a while.
func (s *sessions) remove(p *peer) {
	last := statusOf(p)
	now := time.Now()
	last.Ended = &now
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	delete(s.neighbors, p)
	if p.Hidden {
		return
	}
	s.ended = append(s.ended, last)
	s.forgetEndedLocked()
	s.endLocked()
}

// endLocked ends a drain when the last peer has left; mu is held.
func (s *sessions) endLocked() {
	if len(s.peers) == 0 && s.empty != nil {
		s.over = true
		close(s.empty)
		s.empty = nil
	}
}

// forgetEndedLocked drops the status of ended sessions that are not listed any more; mu is held.
func (s *sessions) forgetEndedLocked() {
	old := time.Now().Add(-endedFor)
	keep := slices.IndexFunc(s.ended, func(s SessionStatus) bool { return s.Ended.After(old) })
	if keep < 0 {
		keep = len(s.ended)
	}
	s.ended = slices.Delete(s.ended, 0, max(keep, len(s.ended)-maxEnded))
}

// list returns the connected peers and upstream relays, and the status of the ones that left last.
func (s *sessions) list() ([]*peer, []SessionStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetEndedLocked()
	return append(inOrder(maps.Keys(s.peers)), s.atLocked(hub.Elsewhere)...), slices.Clone(s.ended)
}

// inOrder returns peers by the age of their sessions.
func inOrder(peers iter.Seq[*peer]) []*peer {
	return slices.SortedFunc(peers, func(a, b *peer) int { return cmp.Compare(a.ID, b.ID) })
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// direct returns the peers that have connected to this process.
func (s *sessions) direct() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return inOrder(maps.Keys(s.peers))
}

// drain sees off the present peers and those that come. The channel is closed when all have left; no more come then.
func (s *sessions) drain(f *farewell) (empty <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(chan struct{})
	s.farewell, s.empty = f, all
	for _, p := range inOrder(maps.Keys(s.peers)) {
		go f.say(p, false)
	}
	s.endLocked()
	return all
}

// closeAll closes the sessions of all peers. No more come.
func (s *sessions) closeAll(reason string) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	closeSessions(s.direct(), reason)
}

// closeSessions closes the sessions of peers at once: each may wait for its peer.
func closeSessions(peers []*peer, reason string) {
	var closed sync.WaitGroup
	for _, p := range peers {
		closed.Go(func() { p.Session.Close(moqt.SessionNoError, reason) })
	}
	closed.Wait()
}

// askAgain asks silent peers for a sign of life, again and again. One that has closed its session, and whose last
// packet got lost, answers that it has: without that, the relay would wait for it until the session times out. A
// subscriber whose acknowledgements the fast path takes is asked as well.
func (s *sessions) askAgain(ctx context.Context) {
	for now := range clock.Every(askInterval, ctx.Done()) {
		for _, p := range s.direct() {
			if now.Sub(p.Conn.LastReceived()) >= askInterval {
				p.Conn.Ping()
			}
		}
	}
}
