package relay

import (
	"cmp"
	"maps"
	"slices"

	"sluice/relay/internal/names"
)

// maxViewedTracks bounds the tracks of a namespace in which viewers are counted. A catalog has no more of them.
const maxViewedTracks = 256

// report tells what the hubs of a directory do. It takes their locks.
type report struct{ *directory }

// TrackStatus describes a track that is published, wanted or cached.
type TrackStatus struct {
	ID          uint64 // counted from 1
	Scope       string
	Name        string // as moqt.FullTrackName.String writes it
	Publishers  int
	Subscribers int
	OnFastPath  int    // subscribers to whom the kernel forwards the track
	Bytes       uint64 // that publishers have sent
}

// subscription describes a subscription to a track.
type subscription struct {
	peer       *party
	onFastPath bool             // the kernel forwards the track to it
	forward    bool             // it wants objects now
	rendition  *RenditionStatus // the set that it belongs to, if the relay chooses which one of several is served
}

// trackCounts counts the tracks of a peer.
type trackCounts struct{ published, subscribed, fast int }

// tracks describes all tracks, in the order in which they came, and counts the direct peers that publish or subscribe.
func (r report) tracks() (list []TrackStatus, publishers, viewers int) {
	publish, view := make(map[*party]struct{}), make(map[*party]struct{})
	r.eachHub(func(h *hub) {
		list = append(list, TrackStatus{
			ID: h.id, Scope: h.place[0], Name: h.name.String(), Subscribers: len(h.subscribers.all),
			Bytes: h.received.Load(), Publishers: count(h.publishers.where(isEstablished)),
			OnFastPath: count(h.subscribers.where(h.fast.serves)),
		})
		for u := range h.publishers.where(broughtFrom(here)) {
			publish[u.peer] = struct{}{}
		}
		for d := range h.subscribers.where(func(d *downstream) bool { return d.peer.from == here }) {
			view[d.peer] = struct{}{}
		}
	})
	slices.SortFunc(list, func(a, b TrackStatus) int { return cmp.Compare(a.ID, b.ID) })
	return list, len(publish), len(view)
}

// ofPeers counts the tracks that each peer publishes and is subscribed to.
func (r report) ofPeers() map[*party]trackCounts {
	counts := make(map[*party]trackCounts)
	r.eachHub(func(h *hub) {
		for p := range h.publishers.of {
			c := counts[p]
			c.published++
			counts[p] = c
		}
		for d := range h.subscribers.all {
			c := counts[d.peer]
			c.subscribed++
			if h.fast.serves(d) {
				c.fast++
			}
			counts[d.peer] = c
		}
	})
	return counts
}

// fed counts the tracks that come from each upstream relay.
func (r report) fed() map[*party]int {
	counts := make(map[*party]int)
	r.eachHub(func(h *hub) {
		for u := range h.publishers.where(broughtFrom(elsewhere)) {
			counts[u.peer]++
		}
	})
	return counts
}

// subscribers describes up to limit subscribers of the track with an id, the oldest sessions first, and tells how many
// there are. It returns false if there is no such track.
func (r report) subscribers(id uint64, limit int) (list []subscription, all int, ok bool) {
	h := r.byID(id)
	if h == nil {
		return nil, 0, false
	}
	h.mu.Lock()
	sorted := slices.SortedFunc(maps.Keys(h.subscribers.all), func(a, b *downstream) int {
		return cmp.Compare(a.peer.id, b.peer.id)
	})
	all = len(sorted)
	sorted = sorted[:min(limit, all)]
	for _, d := range sorted {
		list = append(list, subscription{peer: d.peer, onFastPath: h.fast.serves(d), forward: d.delivery.forward})
	}
	h.mu.Unlock()
	for i, d := range sorted { // a set's lock comes before a hub's
		list[i].rendition = d.renditionStatus()
	}
	return list, all, true
}

// byID returns the hub of the track with an id, or nil.
func (r report) byID(id uint64) *hub {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range where(maps.Values(r.hubs), func(h *hub) bool { return h.id == id }) {
		return h
	}
	return nil
}

// viewers returns the largest number of subscribers that one of the tracks in a namespace has.
func (r report) viewers(at names.Place) (most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := maxViewedTracks
	for h := range r.directory.tracks.At(at) {
		h.mu.Lock()
		most = max(most, len(h.subscribers.all))
		h.mu.Unlock()
		if left--; left == 0 {
			break
		}
	}
	return most
}

// upstreams counts the subscriptions at publishers.
func (r report) upstreams() int {
	return r.sum(func(h *hub) int {
		return count(h.publishers.where(func(u *upstream) bool { return !u.peer.hidden }))
	})
}

// downstreams counts the subscriptions of peers.
func (r report) downstreams() int {
	return r.sum(func(h *hub) int {
		return count(h.subscribers.where(func(d *downstream) bool { return !d.peer.hidden }))
	})
}

// fetches counts the FETCHes that are being answered.
func (r report) fetches() int { return r.sum(func(h *hub) int { return len(h.fetches) }) }

// sum adds up n of all hubs.
func (r report) sum(n func(*hub) int) (total int) {
	r.eachHub(func(h *hub) { total += n(h) })
	return total
}
