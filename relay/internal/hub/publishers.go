package hub

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/fetch"
	"sluice/track"
	"sluice/transport"
)

const (
	// probeTimeout is how long a publisher's transport may take to answer before the publisher counts as gone, and how
	// long another publisher's objects wait for those that the kernel has forwarded. It allows for a few lost packets
	// on a slow path, and a restarted publisher waits no longer than that.
	probeTimeout = 2 * time.Second
	// onTheWay is how long before the end of a session a group may have got its latest object while other streams were
	// on their way: it takes two seconds to notice that an upstream relay is silent (server.watchSilence).
	onTheWay = 3 * time.Second
)

// publishers are the upstream subscriptions of a track. If several publishers bring the same track, the objects of the
// earliest one count: see Hub.malformed. All methods expect Hub.mu to be held.
type publishers struct {
	hub      *Hub
	of       map[*Peer]*upstream // Pending and Established
	sequence int                 // the number of the upstream established last
	moved    time.Time           // when a neighbour has begun or ended to bring the track
	lacking  uint64              // the first group that a refill was to bring and has not; MaxUint64: none
	ended    time.Time           // when one that was Established has ended last; 0: none has
	refills  int                 // in progress, also of upstreams that have ended
	changed  chan struct{}       // closed, and replaced, when upstreams change: see Hub.publishersChangedLocked
}

func newPublishers(h *Hub) publishers {
	return publishers{
		hub: h, of: make(map[*Peer]*upstream), changed: make(chan struct{}), lacking: math.MaxUint64,
	}
}

// all yields all upstreams.
func (s *publishers) all() iter.Seq[*upstream] { return maps.Values(s.of) }

// established yields the upstreams that are Established.
func (s *publishers) established() iter.Seq[*upstream] {
	return where(s.all(), (*upstream).isEstablished)
}

// where yields the Established upstreams that satisfy is.
func (s *publishers) where(is func(*upstream) bool) iter.Seq[*upstream] {
	return where(s.established(), is)
}

// have reports whether an Established upstream satisfies is.
func (s *publishers) have(is func(*upstream) bool) bool { return some(s.established(), is) }

// others yields the Established upstreams but u.
func (s *publishers) others(u *upstream) iter.Seq[*upstream] {
	return s.where(func(o *upstream) bool { return o != u })
}

// areEstablished reports whether an upstream is Established.
func (s *publishers) areEstablished() bool { return some(s.all(), (*upstream).isEstablished) }

// forward reports whether an upstream is Established and forwards objects.
func (s *publishers) forward() bool { return s.have(func(u *upstream) bool { return u.forward }) }

// supply is what a subscriber can expect of the publishers.
type supply struct {
	pending     bool         // one may accept soon
	established bool         // one has accepted
	forward     bool         // and forwards objects
	path        moqt.HopPath // what the objects of the earliest one have come through
}

// supply returns what the publishers have for a subscriber.
func (s *publishers) supply(a asker) (v supply) {
	v.pending = s.hub.choice.connecting && a.peer.Reach >= Elsewhere
	first := math.MaxInt
	for u := range where(s.all(), func(u *upstream) bool { return u.feeds(a) }) {
		v.pending = v.pending || u.isPending()
		v.established, v.forward = v.established || u.isEstablished(), v.forward || u.isEstablished() && u.forward
		if u.isEstablished() && u.sequence < first {
			first, v.path = u.sequence, u.path
		}
	}
	return v
}

// only returns the upstream that is Established, if there is exactly one.
func (s *publishers) only() *upstream {
	if list := slices.Collect(s.established()); len(list) == 1 {
		return list[0]
	}
	return nil
}

// wake makes all upstreams compare the demand with what their publishers were told.
func (s *publishers) wake() {
	for _, u := range s.of {
		u.wake()
	}
}

// awaitForward waits until a publisher forwards objects, so that the Largest Object is a current one; or until there is
// no publisher, or the time is up. It releases Hub.mu while it waits.
func (s *publishers) awaitForward(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for ctx.Err() == nil && s.areEstablished() && !s.forward() {
		changed := s.changed
		s.hub.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.hub.mu.Lock()
	}
}

// establish enters an upstream that its publisher has accepted, and the Largest Object that the publisher knows. If
// that publisher seems to be an earlier one that was restarted, establish returns the earlier ones: u replaces them if
// they are gone. See upstream.replace.
func (s *publishers) establish(u *upstream, largest *moqt.Location) (earlier []*upstream) {
	known := track.LargestWhole(s.hub.data)
	if known == nil && s.hub.data.Limit() != nil { // objects were fetched, up to the end
		known = new(moqt.Location)
	}
	switch {
	case known == nil:
	case largest == nil:
		u.newcomer.known = known
	case s.isRestart(u, *largest, *known):
		earlier = s.startOver(u)
	}
	u.mayRepeat(s.hub.data.Largest())
	s.sequence++
	u.sequence = s.sequence
	u.since, u.largest = time.Now(), largest
	if u.peer.From > Here {
		s.moved = u.since
	}
	s.hub.outage.end()
	s.hub.choice.found()
	s.limitEnding()
	return earlier
}

// startOver forgets what came before u, a publisher that was restarted. If others still bring the track, it returns
// them instead.
func (s *publishers) startOver(u *upstream) (live []*upstream) {
	if live = s.live(u); len(live) == 0 {
		s.forget(u)
	}
	return live
}

// forget forgets the objects before u, and those still to come of publishers that have sent PUBLISH_DONE.
func (s *publishers) forget(u *upstream) {
	for o := range where(s.others(u), (*upstream).isEnding) {
		o.cancelLocked(moqt.ResetCancelled)
	}
	s.hub.startOverLocked()
	for d := range s.hub.subscribers.all {
		d.delivery.selection.startOver()
	}
	s.hub.fast.update()
}

// live returns the upstreams other than u that are Established, and whose publishers have not sent PUBLISH_DONE.
func (s *publishers) live(u *upstream) []*upstream {
	return slices.Collect(where(s.others(u), func(o *upstream) bool { return !o.over && !o.isEnding() }))
}

// limitEnding cancels the upstreams whose publishers have sent PUBLISH_DONE, when their last streams had time to come
// and another publisher is there.
func (s *publishers) limitEnding() {
	ends := func(u *upstream) bool { return u.limit == nil && u.isEnding() && len(s.live(u)) > 0 }
	for u := range s.where(ends) {
		u.limit = s.hub.after(finishTimeout, func() {
			u.limit = nil
			if len(s.live(u)) > 0 {
				u.cancelLocked(moqt.ResetCancelled)
			}
		})
	}
}

// isRestart reports whether a publisher was restarted: it knows less about the track than the relay, as it has lost its
// state (draft §2.4.3), and may publish other objects under the same ids; or it goes on behind the end of the track.
//
// The Largest Object of a neighbour may be older than objects that came another way. A publisher that moves here may
// have sent its Largest Object before the neighbour brought the latest objects. So with a neighbour only groups are
// compared. If the relay still holds the publisher's group, or lacks it and has an earlier one, the publisher may be
// behind, and is not taken for restarted: its objects are compared. Likewise a publisher that comes when a neighbour
// has just begun or ended to bring the track: it may have moved, with its PUBLISH on the way.
func (s *publishers) isRestart(u *upstream, largest, known moqt.Location) bool {
	if limit := s.hub.data.Limit(); limit != nil && limit.Less(largest) { // END_OF_TRACK may count as an object
		return true
	}
	if u.peer.From == Here && time.Since(s.moved) < onTheWay {
		return false
	}
	distant := func(o *upstream) bool { return o.peer.From > Here }
	if u.peer.From == Here && !s.have(distant) {
		return largest.Less(known)
	}
	data, group := s.hub.data, largest.Group
	interrupted := data.Interrupted(group, group+1, time.Time{}) == group
	return group < known.Group && len(data.Segments(group)) == 0 && !interrupted
}

// remove removes an upstream that has ended. It subscribes at others, which announced the namespace, or ends the
// subscriptions that depended on the upstream.
func (s *publishers) remove(u *upstream, cause error, others []*Peer) {
	h := s.hub
	delete(s.of, u.peer)
	left := u.leave()
	if u.isEstablished() {
		s.ended = time.Now()
	}
	if u.isEstablished() && u.peer.From > Here {
		s.moved = s.ended
	}
	h.fast.update()
	if refused, ok := errors.AsType[*moqt.RequestError](cause); ok {
		h.outage.failure = fetch.PassOn(refused)
	}
	again := h.choice.isResting(u.peer)
	switch {
	case isReleased(cause): // nobody needed it; somebody may at once
	case u.isEstablished() || u.peer.From == Here: // a neighbour that has refused may have a publisher soon
		h.choice.rest(u.peer)
	default:
		h.choice.refuse(u.peer)
	}
	if u.isEstablished() && !s.areEstablished() && len(h.subscribers.all) > 0 {
		h.outage.begin(cause)
		if !again && len(h.subscribers.all) > 0 {
			h.choice.subscribe(others...)
		}
	}
	if left != nil && left.refills == 0 { // it has left to u what came before it
		left.startRefill(s.missed(left, left.largest))
	}
	h.configureLocked()
	h.choice.ask()
	h.subscribers.endRelayed()
	h.publishersChangedLocked()
	h.choice.askAgain()
}

// isReleased reports whether the relay itself has ended a subscription, and not because of wrong objects.
func isReleased(cause error) bool {
	e, ok := errors.AsType[*transport.StreamError](cause)
	return ok && !e.Remote && e.Code == uint64(moqt.ResetCancelled)
}

// exclude stops a publisher from publishing the track for the rest of its session. A neighbour is not
// to blame: it may bring the track of another publisher later. Nor is a publisher that has sent PUBLISH_DONE.
func (s *publishers) exclude(u *upstream) {
	if u.peer.From == Here && !u.isEnding() {
		u.peer.exclude(s.hub)
	}
	u.cancelLocked(moqt.ResetMalformedTrack)
}

// missed returns what subscribers may have missed when a neighbour begins to bring a track that it says has come as far
// as largest: from the start of the first group that was interrupted, is missing, may have been on its way, or that the
// refill before has not brought, to the end of the group before the current one, or to largest if it does not send the
// current group from its start. It is empty if they have missed nothing, or would get it too late. Of a long one, only
// the parts that ends returns are fetched. Hub.mu is held.
func (s *publishers) missed(u *upstream, largest *moqt.Location) moqt.Range {
	known, nothing := s.hub.data.Largest(), moqt.Range{Start: moqt.MaxLocation}
	began := s.hub.subscribers.since(u.peer.From)
	if u.peer.From == Here || largest == nil || began == math.MaxUint64 ||
		s.have(func(o *upstream) bool { return o != u }) || u.peer.Session.Tolerates(session.FetchesWithoutPriority) {
		return nothing
	}
	if known == nil { // those who are subscribed lack all that there is, and get the latest groups
		known = &moqt.Location{Group: largest.Group - min(largest.Group, maxRefill)}
	}
	var since time.Time
	if !s.ended.IsZero() {
		since = s.ended.Add(-onTheWay)
	}
	first := max(min(began, known.Group), known.Group-min(known.Group, maxRefill))
	first = min(s.hub.data.Interrupted(first, known.Group, since), max(first, s.lacking))
	if largest.Group >= first+2*maxRefill { // only both ends are fetched: nothing before the latest known group is
		first = min(known.Group, max(first, s.lacking))
	}
	if first >= known.Group && !known.Less(*largest) {
		return nothing
	}
	end := *largest
	if u.peer.isSluice() {
		if largest.Group <= first {
			return nothing
		}
		end = moqt.Location{Group: largest.Group - 1, Object: math.MaxUint64}
	}
	r := moqt.Range{Start: moqt.Location{Group: first}, End: end}
	if s.hub.description.haveTimedOut(s.ended) {
		s.hub.directory.Log.Debug("objects are not asked for again", "why", "their delivery timeouts", "objects",
			Unasked{s.hub.name, r})
		return nothing
	}
	return r
}
