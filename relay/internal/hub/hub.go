package hub

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/names"
	"sluice/track"
)

// Hub is where the publishers and subscribers of one track meet.
type Hub struct {
	directory *Directory
	id        uint64 // counted from 1
	name      moqt.FullTrackName
	place     place
	refs      int                // requests that use it; guarded by Directory.mu
	offer     names.Offer[*Peer] // by publishers of this relay

	payers charge.Payers // whose requests created it

	received atomic.Uint64 // bytes from publishers

	mu          sync.Mutex
	data        *track.Track // the objects; replaced when all have to be forgotten
	fetched     bool         // data may have objects of a publisher without a subscription, from FETCH responses
	description description
	publishers  publishers
	choice      choice
	outage      outage
	demand      demand
	subscribers subscribers
	fast        acceleration
	fetches     map[*fetch.Fetch]struct{}
	fetching    map[*session.Fetch]*Peer // requests at publishers
}

func newHub(d *Directory, at place, name string) *Hub {
	h := &Hub{
		directory: d, name: moqt.FullTrackName{Namespace: at[1:], Name: name}, place: at,
		fetches: make(map[*fetch.Fetch]struct{}), fetching: make(map[*session.Fetch]*Peer),
	}
	h.offer = names.Offer[*Peer]{Place: at, Track: name}
	h.description = description{hub: h}
	h.publishers = newPublishers(h)
	h.choice = choice{hub: h, retry: make(map[*Peer]time.Time), refused: make(map[*Peer]time.Time)}
	h.outage = outage{hub: h}
	h.demand = demand{hub: h}
	h.subscribers = subscribers{
		hub: h, all: make(map[*downstream]struct{}), waiting: make(map[*TracksWatch]struct{}),
	}
	h.fast = acceleration{hub: h, track: d.FastPath.NewTrack()}
	h.data = d.Cache.NewTrack(h.opened)
	return h
}

// errWholeGroup refuses a joining FETCH whose objects would come twice: see delivery.startLate.
var errWholeGroup = &moqt.RequestError{
	Code: moqt.RequestInvalidRange, Reason: "the subscription has begun with the start of the current group",
}

// Subscribe serves a SUBSCRIBE of a peer until it ends.
func (h *Hub) Subscribe(p *Peer, pub *session.Publication, permit Permit) {
	d := newSubscribed(h, p, pub, permit)
	if m := pub.Parameters().Rendition; m != nil {
		if refused := p.Sets.join(d, *m); refused != nil {
			p.Reject(pub.Request, refused)
			return
		}
		defer p.Sets.leave(d, *m)
	}
	d.serve()
}

// Publish serves a PUBLISH of a peer until it ends.
func (h *Hub) Publish(p *Peer, sub *session.Subscription, permit Permit) {
	newOffered(h, p, sub).serve(permit)
}

// Fetch serves a FETCH of a peer until it ends.
func (h *Hub) Fetch(p *Peer, req *session.IncomingFetch, permit Permit) {
	if h.gotWhole(req) {
		p.Reject(req.Request, errWholeGroup)
		return
	}
	h.serveFetch(p, req, &req.Message.Parameters, req.Range, permit)
}

// serveFetch answers a FETCH of a peer, or a fill, until it ends. A fill has no permission of its own.
func (h *Hub) serveFetch(p *Peer, req fetch.Request, params *moqt.Parameters, wanted moqt.Range, permit Permit) {
	d := h.directory
	by := fetch.Client{Version: p.Session.Version(), Payers: p.Payers(), Turns: &p.turns}
	f := fetch.New(&d.Fetch, askedTrack{h, asker{p, params.HopPath}}, h.track(), by, req, params, wanted)
	if permit != nil {
		permit.Hold(func(why *moqt.RequestError) { f.Abort(why, moqt.ResetExpiredAuthToken) })
	}
	d.Tasks.Go(f.Keep)
	outcome := "failed"
	if f.Serve() {
		outcome = "complete"
	}
	d.Counters.Fetches.WithLabelValues(outcome).Inc()
}

// source describes a publisher that is asked for objects.
func (h *Hub) source(p *Peer) fetch.Source {
	return fetch.Source{
		Session: p.Session, Payers: p.Payers(), Track: p.nameOf(h),
		Begin: func(request *session.Fetch) (end func()) { return enter(h, h.fetching, request, p) },
		Accepted: func(data *track.Track, ok *moqt.FetchOK, end moqt.Location) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.description.learnFetched(data, ok, end)
			only := h.publishers.only()
			h.fetched = h.fetched || only == nil || only.peer != p
		},
		Malformed: func(err error) {
			h.mu.Lock()
			u := h.publishers.of[p]
			h.mu.Unlock()
			if u != nil { // else the publisher has no subscription
				h.malformed(u, err)
			}
		},
	}
}

// TellStatus answers a TRACK_STATUS of a peer.
func (h *Hub) TellStatus(p *Peer, req *session.IncomingTrackStatus) {
	asks := askedTrack{h, asker{p, req.Message.Parameters.HopPath}}
	if refused := asks.Learn(req.Context()); refused != nil {
		p.Reject(req.Request, refused)
		return
	}
	h.mu.Lock()
	largest, properties := h.data.Largest(), h.description.properties
	h.mu.Unlock()
	_ = req.OK(moqt.Parameters{LargestObject: largest}, properties) // fails only if the request is over
}

// isIdle reports whether the hub may be dropped, if no request uses it.
func (h *Hub) isIdle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.publishers.of) == 0 && len(h.subscribers.all) == 0 && h.data.Idle()
}

// track returns the cached data. It changes if the hub has to start over.
func (h *Hub) track() *track.Track {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.data
}

// gotWhole reports whether a joining FETCH asks for nothing but what its subscription has begun with: see
// delivery.startLate.
func (h *Hub) gotWhole(f *session.IncomingFetch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscribers.have(func(d *downstream) bool {
		s := &d.delivery.selection
		return d.pub == f.Joining && s.whole && !f.Range.Start.Less(s.wanted().Start)
	})
}

// after calls f, with mu held, when d has passed.
func (h *Hub) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		f()
	})
}

// stopTimer stops a timer that may be nil, and makes it nil.
func stopTimer(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// enter adds a subscriber, asks the present publishers, and answers if it can.
func (h *Hub) enter(d *downstream, group *uint64) {
	h.mu.Lock()
	h.subscribers.all[d] = struct{}{}
	h.demand.requestGroup(group)
	h.mu.Unlock()
	// After d is in the hub, so that a publisher that comes now is not missed.
	peers := h.directory.publishersOf(h.place)
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.over {
		return
	}
	if h.choice.beginLater() && len(h.publishers.of) == 0 {
		h.outage.failure = nil
	}
	h.choice.subscribe(peers...)
	if len(h.publishers.of) == 0 { // all have refused, just before
		h.choice.askAgain()
	}
	h.subscribersChangedLocked()
	h.publishersChangedLocked()
}

// subscribersChangedLocked adapts the upstream subscriptions and the fast path to the subscribers; mu is held.
func (h *Hub) subscribersChangedLocked() {
	h.demand.update()
	h.fast.update()
}

// publishersChangedLocked answers the waiting subscribers, as far as the publishers allow, and adapts the fast path; mu
// is held.
func (h *Hub) publishersChangedLocked() {
	close(h.publishers.changed)
	h.publishers.changed = make(chan struct{})
	h.subscribers.answer()
	h.fast.update()
}

// announced subscribes at a peer that has announced the track's namespace or a prefix of it, or at a neighbour that has
// told of the track, if there are subscribers.
func (h *Hub) announced(p *Peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.From > Here {
		h.choice.begin() // it may have refused before
	}
	switch {
	case len(h.subscribers.all) == 0:
	case p.From == Here:
		h.choice.subscribe(p)
	default:
		h.choice.ask()
		h.choice.askAgain() // it may have ended a subscription just now
	}
}

// reroute makes the track look again where to subscribe and fetch.
func (h *Hub) reroute() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rerouteLocked()
}

// rerouteLocked makes the track look again where to subscribe and fetch; mu is held.
func (h *Hub) rerouteLocked() {
	if len(h.subscribers.all) > 0 {
		h.choice.ask()
	}
	h.publishersChangedLocked()
}

// limit takes a publisher off the fast path, because it exceeds its quota with datagrams. The kernel would forward them
// all.
func (h *Hub) limit(u *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !u.limited {
		u.limited = true
		h.fast.update()
	}
}

// revoked ends the subscription and the fetches at a peer that has lost a permission to publish, unless its PUBLISH of
// this track stands.
func (h *Hub) revoked(p *Peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.publishers.of[p]
	if u != nil && u.offered && u.sub.Context().Err() == nil {
		return
	}
	if u != nil {
		u.cancelLocked(moqt.ResetExpiredAuthToken)
	}
	for request, publisher := range h.fetching {
		if publisher == p {
			request.Cancel(moqt.ResetExpiredAuthToken)
		}
	}
}

// configureLocked tells the cache about the track; mu is held.
func (h *Hub) configureLocked() {
	if ms, ok := h.description.properties.MaxCacheDuration(); ok {
		h.data.SetMaxCacheDuration(moqt.Milliseconds(ms))
	}
	h.data.SetLive(h.publishers.areEstablished() || h.outage.grace != nil)
}

// startOverLocked forgets all objects; mu is held.
func (h *Hub) startOverLocked() {
	h.data.Close()
	h.data = h.directory.Cache.NewTrack(h.opened)
	h.description.extent, h.fetched, h.publishers.lacking = nil, false, math.MaxUint64
	for d := range h.subscribers.all {
		d.since = 0
	}
	for u := range h.publishers.established() {
		u.repeats = 0
	}
	h.configureLocked()
}

// opened is called when the first object of a segment has come.
func (h *Hub) opened(seg *track.Segment) {
	h.fast.identify(seg)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers.sendSegment(seg)
}

// sendDatagram sends an object to the subscribers that want it, except those to which the fast path has sent it.
func (h *Hub) sendDatagram(o *track.Datagram) {
	sent := h.fast.track.ClaimObject(moqt.Location{Group: o.Group, Object: o.ID})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers.sendDatagram(o, sent)
}

// malformed handles objects of u that break the rules of tracks (draft §2.4.2). If there is an earlier publisher,
// its objects stand, and u, which may be an impostor, is excluded: otherwise anybody could end a track by publishing
// objects that contradict it. If there is no earlier publisher, the later ones are excluded, and objects of publishers
// that are gone are forgotten: they may be an impostor's. If there are neither, the track ends.
func (h *Hub) malformed(u *upstream, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.publishers.of[u.peer] != u {
		return
	}
	h.directory.Counters.Malformed.Inc()
	h.directory.malformed.Log(h.directory.Log, logs.Interval, slog.LevelWarn, "malformed track", "track", h.name,
		"publisher", u.peer.Remote(), "err", err)
	if some(h.publishers.others(u), func(o *upstream) bool { return o.precedes(u) }) {
		h.publishers.exclude(u)
		return
	}
	alone := u.repeats == 0 && !h.fetched
	for later := range h.publishers.others(u) {
		h.publishers.exclude(later)
		alone = false
	}
	if alone {
		reset := moqt.ResetMalformedTrack
		// Before the streams are reset because the publisher ends.
		h.outage.giveUp(moqt.DoneMalformedTrack, err.Error(), &reset)
		for f := range h.fetches {
			f.Abort(&moqt.RequestError{Code: moqt.RequestMalformedTrack, Reason: err.Error()}, reset)
		}
		u.cancelLocked(reset)
	}
	h.startOverLocked() // the objects or gaps in the index may be the wrong ones
}
