package relay

import (
	"math"
	"sync"
	"time"

	"sluice/fastpath"
	"sluice/moqt"
	"sluice/track"
)

// hub is where the publishers and subscribers of one track meet.
type hub struct {
	relay *Relay
	name  moqt.FullTrackName
	place place
	refs  int // guarded by Relay.mu

	mu         sync.Mutex
	data       *track.Track
	up         map[*peer]*upstream // Pending and Established
	sequence   int                 // of upstream subscriptions, in the order in which they were established
	down       map[*downstream]struct{}
	fetches    map[*fetch]struct{}
	properties moqt.Properties     // of the track, as received last
	described  bool                // properties are known
	failure    *moqt.RequestError  // why an upstream subscription was refused last
	backoff    map[*peer]time.Time // until when peers are not asked again of which a subscription ended
	extent     *moqt.Location      // the last location that FETCH responses covered
	forward    bool                // the Forward State that upstream subscriptions should have
	group      *groupRequest       // sent upstream last
	changed    chan struct{}       // closed, and replaced, when upstream subscriptions change
	fast       *fastpath.Track     // nil: never on the fast path
	onFastPath bool                // the kernel forwards it, to
	fastest    []*downstream       // these
	linger     *time.Timer         // runs while upstream subscriptions are kept without need
	grace      *time.Timer         // runs while subscribers wait for a publisher to come back
}

func newHub(r *Relay, name moqt.FullTrackName, at place) *hub {
	h := &hub{
		relay:   r,
		name:    name,
		place:   at,
		up:      make(map[*peer]*upstream),
		down:    make(map[*downstream]struct{}),
		fetches: make(map[*fetch]struct{}),
		changed: make(chan struct{}),
		fast:    r.cfg.FastPath.NewTrack(),
	}
	h.data = r.cache.NewTrack(h.opened)
	return h
}

// idle reports whether the hub may be dropped; Relay.mu is held and nobody has acquired it.
func (h *hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.up) == 0 && len(h.down) == 0 && h.data.Idle()
}

// track returns the cached data. It changes if the hub has to start over.
func (h *hub) track() *track.Track {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.data
}

// established reports whether an upstream subscription is Established, and whether one of those forwards; mu is held.
func (h *hub) established() (any, forwards bool) {
	for _, u := range h.up {
		any = any || u.established
		forwards = forwards || u.established && u.forward
	}
	return any, forwards
}

// describe takes account of what a publisher says about the track. The latest set of properties replaces older ones (draft §2.5).
func (h *hub) describe(largest *moqt.Location, p moqt.Properties) {
	h.properties, h.described = p, true
	h.configure()
	if largest != nil {
		h.data.RaiseLargest(*largest)
	}
}

// configure tells the cache what it has to know of the track; mu is held.
func (h *hub) configure() {
	if ms, ok := h.properties.MaxCacheDuration(); ok {
		h.data.SetMaxCacheDuration(moqt.Milliseconds(ms))
	}
	established, _ := h.established()
	h.data.SetLive(established)
}

// settle answers the subscribers that wait, as far as the upstream subscriptions allow; mu is held.
func (h *hub) settle() {
	close(h.changed)
	h.changed = make(chan struct{})
	established, forwards := h.established()
	for d := range h.down {
		switch {
		case d.accepted:
		case forwards || established && !d.forward:
			d.accept()
		case established || len(h.up) > 0 || d.patient():
			// Objects begin to flow soon, a publisher may accept, or one may come.
		default:
			d.refuse(d.unavailable())
		}
	}
	h.accelerate()
}

// refresh adapts the upstream subscriptions to the subscribers that there are; mu is held.
func (h *hub) refresh() {
	wanted := h.isWanted()
	switch {
	case wanted:
		h.forward = true
		stopTimer(&h.linger)
	case h.linger == nil && (h.forward || len(h.down) == 0 && len(h.up) > 0):
		h.linger = time.AfterFunc(h.relay.cfg.Linger, h.lingered)
	}
	for _, u := range h.up {
		u.wake()
	}
	h.accelerate()
}

// isWanted reports whether a subscriber wants objects; mu is held.
func (h *hub) isWanted() bool {
	for d := range h.down {
		if d.forward || d.resumes {
			return true
		}
	}
	return false
}

// lingered releases upstream what nobody has wanted for a while: it stops publishers that offered the track, and leaves the others.
func (h *hub) lingered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.linger = nil
	h.forward = h.isWanted()
	for _, u := range h.up {
		if len(h.down) == 0 && !u.offered {
			u.cancel(moqt.ResetCancelled)
		}
		u.wake()
	}
}

func stopTimer(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// opened is called when the first object of a segment has come.
func (h *hub) opened(seg *track.Segment) {
	h.identify(seg)
	h.mu.Lock()
	defer h.mu.Unlock()
	for d := range h.down {
		if d.accepted {
			d.consider(seg, seg.First)
		}
	}
}

// join gives a subscriber what comes next of the segments that are open; mu is held.
func (h *hub) join(d *downstream) {
	for _, seg := range h.data.OpenSegments() {
		if last, ok := seg.Log.Last(); ok && last.ID < math.MaxUint64 {
			d.consider(seg, last.ID+1)
		}
	}
}

// recall gives a subscriber what is held of the current group, from its start; mu is held. Subscriptions without a filter pass all objects
// (draft §5.1.2), and many publishers send the current group to those who come: their subscribers would otherwise never see an object that is
// published once, such as a catalog, if somebody else subscribed before.
func (h *hub) recall(d *downstream, group uint64) {
	if d.filter != nil && (d.filter.Type != moqt.FilterAbsoluteStart || d.filter.Start != moqt.Location{}) {
		return
	}
	for _, seg := range h.data.Segments(group) {
		if state, _ := seg.Log.State(); state != track.Reset {
			d.consider(seg, seg.First)
		}
	}
}

// startOver forgets all objects; mu is held.
func (h *hub) startOver() {
	h.data.Close()
	h.data = h.relay.cache.NewTrack(h.opened)
	h.extent = nil
	h.configure()
}

// finishAll ends all subscriptions. Streams are completed first, or reset with a code if there is one; mu is held.
func (h *hub) finishAll(code moqt.PublishDoneCode, reason string, reset *moqt.StreamResetCode) {
	for d := range h.down {
		if !d.accepted {
			d.refuse(&moqt.RequestError{Code: refusalOf(code), Reason: reason})
			continue
		}
		d.finish(code, reason, reset)
	}
	stopTimer(&h.grace)
}

// refusalOf is the error for a request that could not begin where a subscription would have ended with a code.
func refusalOf(code moqt.PublishDoneCode) moqt.RequestErrorCode {
	switch code {
	case moqt.DoneTrackEnded:
		return moqt.RequestDoesNotExist
	case moqt.DoneMalformedTrack:
		return moqt.RequestMalformedTrack
	}
	return moqt.RequestInternalError
}

// malformed deals with a track that broke the rules (draft §2.4.2), as found in what a publisher sent. If there is a publisher that was there
// earlier, its objects stand, and the later one, which may be an impostor, is cut off: otherwise anybody could end a track by publishing
// objects that contradict it. If there is none, the track has ended.
func (h *hub) malformed(u *upstream, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.up[u.peer] != u {
		return
	}
	h.relay.metrics.malformed.Inc()
	h.relay.log.Warn("malformed track", "track", h.name, "publisher", u.peer.conn.RemoteAddr(), "err", err)
	if h.hasEarlier(u) {
		if !u.suspect {
			h.bar(u)
		}
		return
	}
	if !h.barLater(u) {
		reset := moqt.ResetMalformedTrack
		h.finishAll(moqt.DoneMalformedTrack, err.Error(), &reset) // before its streams are reset for lack of a publisher
		for f := range h.fetches {
			f.abort(&moqt.RequestError{Code: moqt.RequestMalformedTrack, Reason: err.Error()}, reset)
		}
		u.cancel(reset)
	}
	h.startOver() // what the index knows, of objects or gaps, may be what was wrong
}

// malformedAt is malformed for what a FETCH brought, from a publisher that may have no subscription.
func (h *hub) malformedAt(p *peer, err error) {
	h.mu.Lock()
	u := h.up[p]
	h.mu.Unlock()
	if u != nil {
		h.malformed(u, err)
	}
}

func (h *hub) hasEarlier(u *upstream) bool {
	for _, o := range h.up {
		if o.established && o.sequence < u.sequence {
			return true
		}
	}
	return false
}

// barLater cuts off the publishers that came after u, and reports whether there were any.
func (h *hub) barLater(u *upstream) (found bool) {
	for _, o := range h.up {
		if o.established && o.sequence > u.sequence {
			h.bar(o)
			found = true
		}
	}
	return found
}

// bar cuts off a publisher for the rest of its session.
func (h *hub) bar(u *upstream) {
	u.peer.bar(h)
	u.cancel(moqt.ResetMalformedTrack)
}
