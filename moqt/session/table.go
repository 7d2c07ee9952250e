package session

import (
	"slices"

	"sluice/moqt"
)

// requestTable indexes the open requests of a session. The session's mu guards it: the methods of requestTable and
// aliasTable expect the caller to hold mu.
type requestTable struct {
	requests      map[uint64]*Request
	subscriptions map[string]*Subscription // Pending and Established, by track; of two, the SUBSCRIBE of this end
	offers        map[string]*Subscription // PUBLISH requests of the peer for tracks in subscriptions
	publications  map[string]*Publication  // Pending and Established, by track
	prefixes      map[*Request]moqt.Namespace
	fetches       map[uint64]*Fetch
	fills         map[uint64]*Subscription // fills whose stream has not come, by the message that asked for them
	filled        []moqt.Namespace         // prefixes of SUBSCRIBE_TRACKS requests that ask for fills
	aliases       aliasTable
	changed       chan struct{} // closed, and replaced, by notify
}

func newRequestTable() requestTable {
	return requestTable{
		requests:      make(map[uint64]*Request),
		subscriptions: make(map[string]*Subscription),
		offers:        make(map[string]*Subscription),
		publications:  make(map[string]*Publication),
		prefixes:      make(map[*Request]moqt.Namespace),
		fetches:       make(map[uint64]*Fetch),
		fills:         make(map[uint64]*Subscription),
		changed:       make(chan struct{}),
	}
}

// maxAwaitedFills is how many fills of a subscription may lack their streams. The publisher opens none for a fill that
// has no objects, and does not say so: the stream of an older fill is refused.
const maxAwaitedFills = 64

// awaitFill expects the stream of a fill.
func (t *requestTable) awaitFill(id uint64, sub *Subscription) {
	t.fills[id] = sub
	sub.fills = append(sub.fills, id)
	if len(sub.fills) > maxAwaitedFills {
		t.takeFill(sub.fills[0])
	}
}

// takeFill returns the subscription that has asked for a fill, or nil, and expects its stream no longer.
func (t *requestTable) takeFill(id uint64) *Subscription {
	sub := t.fills[id]
	if sub != nil {
		delete(t.fills, id)
		sub.fills = slices.DeleteFunc(sub.fills, func(other uint64) bool { return other == id })
	}
	return sub
}

// awaitFillsOfOffers expects fills of the tracks with a prefix, from now on: a PUBLISH may come late.
func (t *requestTable) awaitFillsOfOffers(prefix moqt.Namespace) {
	if !slices.ContainsFunc(t.filled, prefix.HasPrefix) {
		t.filled = append(t.filled, prefix)
	}
}

// notify wakes up everything that waits for changed: data streams and joining fetches that arrived before the message
// that they depend on.
func (t *requestTable) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// mayBegin returns an error if this end is already the publisher, or already the subscriber, of a track. It is for
// versions in which a track has one subscription.
func (t *requestTable) mayBegin(track moqt.FullTrackName, asPublisher bool) error {
	key := track.Key()
	taken := t.subscriptions[key] != nil || t.offers[key] != nil
	if asPublisher {
		taken = t.publications[key] != nil
	}
	if taken {
		return ErrDuplicate
	}
	return nil
}

// checkAlias checks the alias of a PUBLISH of the peer, whether or not the request is going to be refused.
func (t *requestTable) checkAlias(r role) error {
	if sub, ok := r.(*Subscription); ok {
		return t.aliases.check(sub.offer.TrackAlias, sub.track)
	}
	return nil
}

// subscription returns the subscription that an alias belongs to, or nil if its objects are not wanted. If that is not
// known yet, it returns a channel that is closed when the caller should ask again.
func (t *requestTable) subscription(alias uint64) (sub *Subscription, wait <-chan struct{}) {
	sub, retired := t.aliases.lookup(alias)
	switch {
	case sub == nil && retired:
		return nil, nil
	case sub == nil:
		return nil, t.changed
	}
	if isClosed(sub.accept) {
		return sub, nil
	}
	return nil, t.changed
}

// offered returns the accepted subscription that began with a PUBLISH of the peer, or nil if there is none. If that is
// not known yet, it returns a channel that is closed when the caller should ask again.
func (t *requestTable) offered(id uint64, mayArrive bool) (sub *Subscription, wait <-chan struct{}) {
	r := t.requests[id]
	if r == nil && mayArrive {
		return nil, t.changed
	}
	if r != nil {
		sub, _ = r.role.(*Subscription)
	}
	if sub == nil {
		return nil, nil
	}
	if isClosed(sub.accept) {
		return sub, nil
	}
	return nil, t.changed
}

// maxRetiredAliases is the number of Track Aliases that are remembered after their subscriptions have ended, so that
// late objects are discarded at once (draft §11.1). Objects of older aliases are held for a short time.
const maxRetiredAliases = 4096

// aliasTable maps the Track Aliases that the peer chose to subscriptions.
type aliasTable struct {
	live    map[uint64]*Subscription
	retired map[uint64]struct{}
	order   []uint64 // of retirement
}

// check returns an error if an alias belongs to another track, whose subscription has not ended (draft §11.1).
func (t *aliasTable) check(alias uint64, track moqt.FullTrackName) error {
	if other := t.live[alias]; other != nil && other.drain.cause == nil && !other.track.Equal(track) {
		return closes(moqt.SessionDuplicateTrackAlias, "track alias %d stands for two tracks", alias)
	}
	return nil
}

// bind maps an alias to a subscription.
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

// retire remembers an alias whose objects are discarded, unless it is live.
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

// lookup returns the subscription of an alias, and whether the alias was retired.
func (t *aliasTable) lookup(alias uint64) (sub *Subscription, retired bool) {
	_, retired = t.retired[alias]
	return t.live[alias], retired
}
