package hub

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/fastpath"
	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/names"
	"sluice/track"
)

// Announcement is an accepted PUBLISH_NAMESPACE, or one that a mirror shows.
type Announcement = names.Announcement[*Peer]

// Prefix is a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS of a peer, or of this relay.
type Prefix = names.Prefix[*Peer]

// Config is what the hubs of a relay have in common.
type Config struct {
	Cache    *track.Cache
	FastPath *fastpath.FastPath // nil: none
	Log      *slog.Logger
	Tasks    *sync.WaitGroup // goroutines that outlive the handler that started them
	Counters *Counters
	Fetch    fetch.Config
	// neighbors returns the neighbours that may have a track at a place, in the order in which they are asked, and
	// reports whether there may be another one soon.
	Neighbors func(at place) (peers []*Peer, connecting bool)

	HopID                        uint64 // of this relay
	MaxTracks, MaxMatches        int
	Linger, Grace, MaxRendezvous time.Duration // as in Config
}

// Directory finds the hubs of tracks by name, and the tracks and namespaces below a prefix.
type Directory struct {
	Config
	policy        atomic.Pointer[func(moqt.FullTrackName, int) int] // see setPolicy
	Subscriptions atomic.Uint64                                     // that peers have had, ever
	malformed     logs.Line

	mu      sync.Mutex
	hubs    map[string]*Hub          // by scope and name
	lastID  uint64                   // of a hub
	tracks  names.Tree[*Hub]         // all hubs
	watches names.Tree[*TracksWatch] // SUBSCRIBE_TRACKS
	Names   names.Space[*Peer]       // PUBLISH_NAMESPACE; SUBSCRIBE_NAMESPACE
}

var errTooManyTracks = &moqt.RequestError{
	Code: moqt.RequestExcessiveLoad, Reason: "the relay has no room for another track",
}

// NewDirectory returns a directory without tracks. policy is that of setPolicy.
func NewDirectory(cfg Config, policy func(track moqt.FullTrackName, subscribers int) int) *Directory {
	d := &Directory{Config: cfg, hubs: make(map[string]*Hub)}
	d.policy.Store(&policy)
	return d
}

// Acquire returns the hub of the track with a name at a place, unless there are too many. The hub exists at least until
// it is released. If it is new, it counts for the quotas of the accounts as long as it exists.
func (d *Directory) Acquire(at place, name string, ps charge.Payers) (*Hub, *moqt.RequestError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := moqt.FullTrackName{Namespace: at, Name: name}.Key()
	h := d.hubs[key]
	if h == nil {
		if len(d.hubs) >= d.MaxTracks {
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

func (d *Directory) Release(h *Hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.refs--
}

// Sweep drops the hubs that no request uses and that hold nothing.
func (d *Directory) Sweep() {
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
func (d *Directory) eachHub(f func(*Hub)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hubs {
		h.mu.Lock()
		f(h)
		h.mu.Unlock()
	}
}

func (d *Directory) Count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.hubs)
}

// CountBelow returns the number of tracks at and below a place.
func (d *Directory) CountBelow(at place) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tracks.Count(at)
}

// Report tells what the hubs do.
func (d *Directory) Report() Report { return Report{d} }

// SetPolicy replaces the function that chooses how many of a track's subscribers the fast path serves.
func (d *Directory) SetPolicy(choose func(track moqt.FullTrackName, subscribers int) int) {
	d.policy.Store(&choose)
	d.eachHub(func(h *Hub) { h.fast.update() })
}

// Reroute makes all tracks look again where to subscribe.
func (d *Directory) Reroute() { d.eachHub((*Hub).rerouteLocked) }

// DropOffers ends the subscriptions that a neighbour has offered below a prefix, unless they have subscribers.
func (d *Directory) DropOffers(by *Peer, prefix moqt.Namespace) {
	d.eachHub(func(h *Hub) {
		u := h.publishers.of[by]
		if u != nil && u.offered && h.name.Namespace.HasPrefix(prefix) && h.subscribers.areNone() {
			u.cancelLocked(moqt.ResetCancelled)
		}
	})
}

// EndPart ends a part of the subscriptions of an account, which exceed its quota, the newest first: so a viewer who
// comes too late does not disturb those before him.
func (d *Directory) EndPart(a *charge.Account, part float64) {
	var list []*downstream
	d.eachHub(func(h *Hub) {
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
func (d *Directory) offer(h *Hub, p *Peer, on bool) {
	d.Names.Offer(&h.offer, p, on)
	d.tell(h)
}

// tell offers a track to the peers that asked for such tracks (draft §9.5), when who offers it has changed, or the
// first publisher brings it.
func (d *Directory) tell(h *Hub) {
	d.mu.Lock()
	watches := slices.Collect(d.watches.Matching(h.place))
	d.mu.Unlock()
	names.Tell(context.Background(), &d.mu, watches, func(w *TracksWatch) {
		if d.watches.Has(w.Place(), w) && h.place.HasPrefix(w.Place()) {
			w.foundLocked(h)
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	offered := len(d.Names.OfferedBy(&h.offer)) > 0
	h.mu.Lock()
	defer h.mu.Unlock()
	if !offered || h.publishers.areEstablished() {
		clear(h.subscribers.waiting)
	}
	h.demand.update()
}

// Watchers returns how many requests for tracks match a place.
func (d *Directory) Watchers(at place) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watches.Matches(at)
}

// Watched returns the requests for tracks below prefixes in a scope.
func (d *Directory) Watched(scope string) (list []Prefix) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watches.Under(place{scope}) {
		list = append(list, w.Prefix)
	}
	return list
}

// below calls f for the hubs at and below a place.
func (d *Directory) below(at place, f func(*Hub)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.tracks.Under(at) {
		f(h)
	}
}

// Show makes an announcement known, or that it comes another way now: its peer is a source of tracks that have
// subscribers (draft §9.5).
func (d *Directory) Show(a *Announcement, way moqt.Parameters) {
	if d.Names.Announce(a, way) {
		d.below(a.Place, func(h *Hub) { h.announced(a.Peer) })
	}
}

// hide says that one of those that told an announcement does not any more. The last one takes it with it. Subscriptions
// at the peer go on.
func (d *Directory) hide(a *Announcement, last bool) {
	if last {
		d.Names.Withdraw(a)
	}
	d.below(a.Place, (*Hub).reroute)
}

// showOffer says that publishers behind a peer offer a track. hide ends that, and is nil if there is no room. The hub
// exists in this process, too, so that SUBSCRIBE_TRACKS finds it.
func (d *Directory) showOffer(link *Peer, at place, track string) (hide func()) {
	h, refused := d.Acquire(at, track, nil)
	if refused != nil {
		d.Log.Warn("subscribers will not find a track of another process of the relay", "err", refused)
		return nil
	}
	d.offer(h, link, true)
	h.announced(link)
	return func() {
		d.offer(h, link, false)
		d.Release(h)
	}
}

// Revoke withdraws an announcement whose peer may no longer publish in the namespace, and ends what the relay gets from
// the peer because of it.
func (d *Directory) Revoke(a *Announcement) {
	d.Names.Withdraw(a) // first: two announcements that are revoked at once must not excuse each other
	d.below(a.Place, func(h *Hub) { d.unpublished(h, a.Peer) })
}

// unpublished ends what the relay gets of a track from a peer that has lost a permission to publish it, unless the peer
// has another one.
func (d *Directory) unpublished(h *Hub, p *Peer) {
	if !d.isAnnounced(h.place, p) {
		h.revoked(p)
	}
}

// isAnnounced reports whether a peer has announced a place, or a place above it.
func (d *Directory) isAnnounced(at place, p *Peer) bool {
	return slices.Contains(d.Names.Announced(at), p)
}

// publishersOf returns the peers of this process that may publish a track at a place: they have announced its namespace
// or a prefix of it.
func (d *Directory) publishersOf(at place) []*Peer {
	return slices.DeleteFunc(d.Names.Announced(at), func(p *Peer) bool { return p.From > Here })
}
