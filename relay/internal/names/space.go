package names

import (
	"context"
	"slices"
	"sync"

	"sluice/moqt"
)

// Peer is who publishes, or is told where others do.
type Peer[P any] interface {
	comparable
	Naming() Naming
	Serves(P) bool           // another peer may get what this one publishes
	Takes(moqt.HopPath) bool // it may be told what has come through a path
	IsRelay() bool           // it is told of the best way
	Cost() uint64            // of a subscription at it
}

// Space has the namespaces and tracks that peers publish, and tells watches about them. The zero value is empty.
type Space[P Peer[P]] struct {
	mu            sync.Mutex
	announcements Tree[*Announcement[P]]
	offers        Tree[*Offer[P]] // by peers
	watches       Tree[*Watch[P]]
	announced     uint64 // how many namespaces were, ever
}

// Announce makes an announcement known, or that it comes another way now. It returns false if it was withdrawn before.
func (s *Space[P]) Announce(a *Announcement[P], way moqt.Parameters) bool {
	s.mu.Lock()
	if a.over {
		s.mu.Unlock()
		return false
	}
	a.comes(way)
	if a.number == 0 {
		s.announced++
		a.number = s.announced
		s.announcements.Add(a.Place, a)
	}
	watches := slices.Collect(s.watches.Matching(a.Place))
	s.mu.Unlock()
	s.tell(watches, a.Place)
	return true
}

// Withdraw withdraws an announcement, or prevents it.
func (s *Space[P]) Withdraw(a *Announcement[P]) {
	var watches []*Watch[P]
	s.mu.Lock()
	a.over = true
	if s.announcements.Remove(a.Place, a) {
		watches = slices.Collect(s.watches.Matching(a.Place))
	}
	s.mu.Unlock()
	s.tell(watches, a.Place)
}

// tell sends the state of a place to watches. A watch gets nothing if it has ended, or if the place lacks its prefix.
func (s *Space[P]) tell(watches []*Watch[P], at Place) {
	Tell(context.Background(), &s.mu, watches, func(w *Watch[P]) {
		if s.watches.Has(w.Place(), w) && at.HasPrefix(w.Place()) {
			w.tellLocked(at)
		}
	})
}

// Watchers returns how many watches match a place.
func (s *Space[P]) Watchers(at Place) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches.Matches(at)
}

// Offer says that a peer offers a track, or that it does so no longer.
func (s *Space[P]) Offer(o *Offer[P], p P, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		o.by = append(o.by, p)
		s.offers.Add(o.Place, o)
	} else if i := slices.Index(o.by, p); i >= 0 {
		o.by = slices.Delete(o.by, i, i+1)
	}
	if len(o.by) == 0 {
		s.offers.Remove(o.Place, o)
	}
	for w := range s.watches.Matching(o.Place) {
		if w.follows {
			w.tellOfferLocked(o)
		}
	}
}

// OfferedBy returns the peers that offer a track.
func (s *Space[P]) OfferedBy(o *Offer[P]) []P {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(o.by)
}

// Announced returns the peers that have announced a place, or a place above it.
func (s *Space[P]) Announced(at Place) (list []P) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.announcements.Matching(at) {
		list = append(list, a.Peer)
	}
	return list
}

// wayLocked returns what a peer is told with a place in which others publish, or false if it is told of none. Which of
// several announcements it is matters to other relays only. A follower is told of a place with nothing but tracks, too.
func (s *Space[P]) wayLocked(at Place, w *Watch[P]) (way moqt.Parameters, found bool) {
	var best *Announcement[P]
	for a := range s.announcements.At(at) {
		if a.mayReach(w.Peer) && (best == nil || a.compare(best) < 0) {
			best = a
		}
		if best != nil && !w.Peer.IsRelay() {
			break
		}
	}
	if best != nil {
		return best.way(), true
	}
	for o := range s.offers.At(at) {
		if w.follows && o.isFor(w.Peer) {
			return moqt.Parameters{HopPath: UnknownPublisher}, true
		}
	}
	return moqt.Parameters{}, false
}

// Watched returns the requests for namespaces below prefixes in a scope.
func (s *Space[P]) Watched(scope string) (list []Prefix[P]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches.Under(Place{scope}) {
		if !w.follows {
			list = append(list, w.Prefix)
		}
	}
	return list
}

// Follow tells where others publish that a peer may be told of: the namespaces that they have announced, and those of
// tracks that they offer, or these tracks. stop ends that.
func (s *Space[P]) Follow(p P, told Notify) (stop func()) {
	w := &Watch[P]{Prefix: Prefix[P]{Peer: p}, Space: s, Told: told, follows: true}
	s.mu.Lock()
	offers, places := slices.Collect(s.offers.Under(w.Place())), w.enterLocked()
	s.mu.Unlock()
	Tell(context.Background(), &s.mu, places, w.tellLocked)
	Tell(context.Background(), &s.mu, offers, w.tellOfferLocked)
	return w.Leave
}

// IsEmpty reports whether nobody publishes or watches.
func (s *Space[P]) IsEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.announcements.size+s.offers.size+s.watches.size == 0
}
