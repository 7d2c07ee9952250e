package relay

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/fastpath"
	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/names"
	"sluice/track"
)

// announcement is an accepted PUBLISH_NAMESPACE, or one that a mirror shows.
type announcement = names.Announcement[*party]

// prefix is a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS of a peer, or of this relay.
type prefix = names.Prefix[*party]

// config is what the hubs of a relay have in common.
type config struct {
	cache    *track.Cache
	fastPath *fastpath.FastPath // nil: none
	log      *slog.Logger
	tasks    *sync.WaitGroup // goroutines that outlive the handler that started them
	counters *counters
	fetch    fetch.Config
	// neighbors returns the neighbours that may have a track at a place, in the order in which they are asked, and
	// reports whether there may be another one soon.
	neighbors func(at place) (peers []*party, connecting bool)

	hopID                        uint64 // of this relay
	maxTracks, maxMatches        int
	linger, grace, maxRendezvous time.Duration // as in Config
}

// directory finds the hubs of tracks by name, and the tracks and namespaces below a prefix. It implements names.Shower.
type directory struct {
	config
	policy        atomic.Pointer[func(moqt.FullTrackName, int) int] // see setPolicy
	subscriptions atomic.Uint64                                     // that peers have had, ever

	mu      sync.Mutex
	hubs    map[string]*hub          // by scope and name
	lastID  uint64                   // of a hub
	tracks  names.Tree[*hub]         // all hubs
	watches names.Tree[*tracksWatch] // SUBSCRIBE_TRACKS
	names   names.Space[*party]      // PUBLISH_NAMESPACE; SUBSCRIBE_NAMESPACE
}

var errTooManyTracks = &moqt.RequestError{
	Code: moqt.RequestExcessiveLoad, Reason: "the relay has no room for another track",
}

// newDirectory returns a directory without tracks. policy is that of setPolicy.
func newDirectory(cfg config, policy func(track moqt.FullTrackName, subscribers int) int) *directory {
	d := &directory{config: cfg, hubs: make(map[string]*hub)}
	d.policy.Store(&policy)
	return d
}

// acquire returns the hub of the track with a name at a place, unless there are too many. The hub exists at least until
// it is released. If it is new, it counts for the quotas of the accounts as long as it exists.
func (d *directory) acquire(at place, name string, ps charge.Payers) (*hub, *moqt.RequestError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := moqt.FullTrackName{Namespace: at, Name: name}.Key()
	h := d.hubs[key]
	if h == nil {
		if len(d.hubs) >= d.maxTracks {
			return nil, errTooManyTracks
		}
		if refused := ps.Take(charge.TracksHeld); refused != nil {
			return nil, refused
		}
		h = newHub(d, at, name)
		d.lastID++
		h.id, h.payers = d.lastID, ps
		d.hubs[key] = h
		d.tracks.Add(at, h)
	}
	h.refs++
	return h, nil
}

func (d *directory) release(h *hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.refs--
}

// sweep drops the hubs that no request uses and that hold nothing.
func (d *directory) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, h := range d.hubs {
		if h.refs == 0 && h.isIdle() {
			delete(d.hubs, key)
			d.tracks.Remove(h.place, h)
			h.payers.Give(charge.TracksHeld)
			h.fast.track.Close()
			h.track().Close()
		}
	}
}

// eachHub calls f for all hubs, with their locks held.
func (d *directory) eachHub(f func(*hub)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hubs {
		h.mu.Lock()
		f(h)
		h.mu.Unlock()
	}
}

func (d *directory) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.hubs)
}

// countBelow returns the number of tracks at and below a place.
func (d *directory) countBelow(at place) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tracks.Count(at)
}

// setPolicy replaces the function that chooses how many of a track's subscribers the fast path serves.
func (d *directory) setPolicy(choose func(track moqt.FullTrackName, subscribers int) int) {
	d.policy.Store(&choose)
	d.eachHub(func(h *hub) { h.fast.update() })
}

// reroute makes all tracks look again where to subscribe.
func (d *directory) reroute() { d.eachHub((*hub).rerouteLocked) }

// dropOffers ends the subscriptions that a neighbour has offered below a prefix, unless they have subscribers.
func (d *directory) dropOffers(by *party, prefix moqt.Namespace) {
	d.eachHub(func(h *hub) {
		u := h.publishers.of[by]
		if u != nil && u.offered && h.name.Namespace.HasPrefix(prefix) && h.subscribers.areNone() {
			u.cancelLocked(moqt.ResetCancelled)
		}
	})
}

// endPart ends a part of the subscriptions of an account, which exceed its quota, the newest first: so a viewer who
// comes too late does not disturb those before him.
func (d *directory) endPart(a *charge.Account, part float64) {
	var list []*downstream
	d.eachHub(func(h *hub) {
		pays := func(d *downstream) bool { return slices.Contains(d.permit.Payers(), a) }
		list = slices.AppendSeq(list, h.subscribers.where(pays))
	})
	slices.SortFunc(list, func(a, b *downstream) int { return cmp.Compare(b.number, a.number) })
	for _, d := range list[:int(math.Ceil(part*float64(len(list))))] {
		a.Refuse(charge.DownloadRate)
		d.End(moqt.DoneExcessiveLoad, moqt.ResetExcessiveLoad)
	}
}

// offer says that a peer of this relay offers a track, or does so no longer.
func (d *directory) offer(h *hub, p *party, on bool) {
	d.names.Offer(&h.offer, p, on)
	d.tell(h)
}

// tell offers a track to the peers that asked for such tracks (draft §9.5), when who offers it has changed, or the
// first publisher brings it.
func (d *directory) tell(h *hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watches.Matching(h.place) {
		w.foundLocked(h)
	}
	offered := len(d.names.OfferedBy(&h.offer)) > 0
	h.mu.Lock()
	defer h.mu.Unlock()
	if !offered || h.publishers.areEstablished() {
		clear(h.subscribers.waiting)
	}
	h.demand.update()
}

// watched returns the requests for tracks below prefixes in a scope.
func (d *directory) watched(scope string) (list []prefix) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watches.Under(place{scope}) {
		list = append(list, w.Prefix)
	}
	return list
}

// below calls f for the hubs at and below a place.
func (d *directory) below(at place, f func(*hub)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.tracks.Under(at) {
		f(h)
	}
}

// Show implements names.Shower: the peer of an announcement is a source of tracks that have subscribers (draft §9.5).
func (d *directory) Show(a *announcement, way moqt.Parameters) {
	if d.names.Announce(a, way) {
		d.below(a.Place, func(h *hub) { h.announced(a.Peer) })
	}
}

// Hide implements names.Shower. Subscriptions at the peer go on.
func (d *directory) Hide(a *announcement, last bool) {
	if last {
		d.names.Withdraw(a)
	}
	d.below(a.Place, (*hub).reroute)
}

// ShowOffer implements names.Shower. The hub exists in this process, too, so that SUBSCRIBE_TRACKS finds it.
func (d *directory) ShowOffer(link *party, at place, track string) (hide func()) {
	h, refused := d.acquire(at, track, nil)
	if refused != nil {
		d.log.Warn("subscribers will not find a track of another process of the relay", "err", refused)
		return nil
	}
	d.offer(h, link, true)
	h.announced(link)
	return func() {
		d.offer(h, link, false)
		d.release(h)
	}
}

// revoke withdraws an announcement whose peer may no longer publish in the namespace, and ends what the relay gets from
// the peer because of it.
func (d *directory) revoke(a *announcement) {
	d.names.Withdraw(a) // first: two announcements that are revoked at once must not excuse each other
	d.below(a.Place, func(h *hub) { d.unpublished(h, a.Peer) })
}

// unpublished ends what the relay gets of a track from a peer that has lost a permission to publish it, unless the peer
// has another one.
func (d *directory) unpublished(h *hub, p *party) {
	if !d.isAnnounced(h.place, p) {
		h.revoked(p)
	}
}

// isAnnounced reports whether a peer has announced a place, or a place above it.
func (d *directory) isAnnounced(at place, p *party) bool {
	return slices.Contains(d.names.Announced(at), p)
}

// publishersOf returns the peers of this process that may publish a track at a place: they have announced its namespace
// or a prefix of it.
func (d *directory) publishersOf(at place) []*party {
	return slices.DeleteFunc(d.names.Announced(at), func(p *party) bool { return p.from > here })
}
