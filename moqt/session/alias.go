package session

import (
	"fmt"

	"sluice/moqt"
)

// maxRetiredAliases is how many Track Aliases are remembered after their subscriptions, so that late objects are
// discarded at once (draft §11.1). Older ones count as unknown: that costs a short wait, and no more.
const maxRetiredAliases = 4096

// aliasTable leads from the Track Aliases that the peer chose to subscriptions. It is guarded by the session's mu.
type aliasTable struct {
	live    map[uint64]*Subscription
	retired map[uint64]struct{}
	order   []uint64 // of retirement
}

// check fails if an alias leads to another track, whose subscription has not ended (draft §11.1).
func (t *aliasTable) check(alias uint64, track moqt.FullTrackName) error {
	if other := t.live[alias]; other != nil && other.drain.cause == nil && !other.track.Equal(track) {
		return &moqt.ProtocolError{
			Code:   moqt.SessionDuplicateTrackAlias,
			Reason: fmt.Sprintf("track alias %d stands for two tracks", alias),
		}
	}
	return nil
}

// checkAlias checks the alias of a PUBLISH of the peer, whether or not the request is going to be refused.
func (s *Session) checkAlias(r role) error {
	if sub, ok := r.(*Subscription); ok {
		return s.aliases.check(sub.offer.TrackAlias, sub.track)
	}
	return nil
}

// bind makes an alias lead to a subscription.
func (t *aliasTable) bind(alias uint64, sub *Subscription) error {
	if err := t.check(alias, sub.track); err != nil {
		return err
	}
	if t.live == nil {
		t.live = make(map[uint64]*Subscription)
	}
	t.live[alias] = sub
	return nil
}

// release retires the alias of a subscription that is over.
func (t *aliasTable) release(alias uint64, sub *Subscription) {
	if t.live[alias] == sub {
		delete(t.live, alias)
		t.retire(alias)
	}
}

// retire remembers an alias whose objects are not wanted unless it is live.
func (t *aliasTable) retire(alias uint64) {
	if t.retired == nil {
		t.retired = make(map[uint64]struct{})
	}
	if _, ok := t.retired[alias]; !ok {
		t.retired[alias] = struct{}{}
		t.order = append(t.order, alias)
	}
	if len(t.order) > maxRetiredAliases {
		delete(t.retired, t.order[0])
		t.order = t.order[1:]
	}
}

// lookup returns the subscription of an alias. Without one, it reports whether the alias was retired.
func (t *aliasTable) lookup(alias uint64) (sub *Subscription, retired bool) {
	_, retired = t.retired[alias]
	return t.live[alias], retired
}

func (s *Session) retireAlias(alias uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aliases.retire(alias)
	s.notify()
}
