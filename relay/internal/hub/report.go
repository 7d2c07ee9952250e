package hub

import (
	"cmp"
	"maps"
	"slices"

	"sluice/relay/internal/names"
)

// maxViewedTracks bounds the tracks of a namespace in which viewers are counted. A catalog has no more of them.
const maxViewedTracks = 256

// Report tells what the hubs of a directory do. It takes their locks.
type Report struct{ *Directory }

// TrackStatus describes a track that is published, wanted or cached.
type TrackStatus struct {
	ID          uint64 `json:"id"` // counted from 1; a track that comes back has another one
	Scope       string `json:"scope,omitempty"`
	Name        string `json:"name"` // as moqt.FullTrackName.String writes it
	Publishers  int    `json:"publishers"`
	Subscribers int    `json:"subscribers"`
	OnFastPath  int    `json:"on_fast_path"` // subscribers to whom the kernel forwards the track
	Bytes       uint64 `json:"bytes"`        // that publishers have sent
}

// Subscription describes a subscription to a track.
type Subscription struct {
	Peer       *Peer
	OnFastPath bool             // the kernel forwards the track to it
	Forward    bool             // it wants objects now
	Rendition  *RenditionStatus // the set that it belongs to, if the relay chooses which one of several is served
}

// TrackCounts counts the tracks of a peer.
type TrackCounts struct{ Published, Subscribed, Fast int }

// Tracks describes all tracks, in the order in which they came, and counts the direct peers that publish or subscribe.
func (r Report) Tracks() (list []TrackStatus, publishers, viewers int) {
	publish, view := make(map[*Peer]struct{}), make(map[*Peer]struct{})
	r.eachHub(func(h *Hub) {
		list = append(list, TrackStatus{
			ID: h.id, Scope: h.place[0], Name: h.name.String(), Subscribers: len(h.subscribers.all),
			Bytes: h.received.Load(), Publishers: count(h.publishers.established()),
			OnFastPath: count(h.subscribers.where(h.fast.serves)),
		})
		for u := range h.publishers.where(broughtFrom(Here)) {
			publish[u.peer] = struct{}{}
		}
		for d := range h.subscribers.where(func(d *downstream) bool { return d.peer.From == Here }) {
			view[d.peer] = struct{}{}
		}
	})
	slices.SortFunc(list, func(a, b TrackStatus) int { return cmp.Compare(a.ID, b.ID) })
	return list, len(publish), len(view)
}

// OfPeers counts the tracks that each peer publishes and is subscribed to.
func (r Report) OfPeers() map[*Peer]TrackCounts {
	counts := make(map[*Peer]TrackCounts)
	r.eachHub(func(h *Hub) {
		for p := range h.publishers.of {
			c := counts[p]
			c.Published++
			counts[p] = c
		}
		for d := range h.subscribers.all {
			c := counts[d.peer]
			c.Subscribed++
			if h.fast.serves(d) {
				c.Fast++
			}
			counts[d.peer] = c
		}
	})
	return counts
}

// Fed counts the tracks that come from each upstream relay.
func (r Report) Fed() map[*Peer]int {
	counts := make(map[*Peer]int)
	r.eachHub(func(h *Hub) {
		for u := range h.publishers.where(broughtFrom(Elsewhere)) {
			counts[u.peer]++
		}
	})
	return counts
}

// Subscribers describes up to limit subscribers of the track with an id, the oldest sessions first, and tells how many
// there are. It returns false if there is no such track.
func (r Report) Subscribers(id uint64, limit int) (list []Subscription, all int, ok bool) {
	h := r.byID(id)
	if h == nil {
		return nil, 0, false
	}
	h.mu.Lock()
	sorted := slices.SortedFunc(maps.Keys(h.subscribers.all), func(a, b *downstream) int {
		return cmp.Compare(a.peer.ID, b.peer.ID)
	})
	all = len(sorted)
	sorted = sorted[:min(limit, all)]
	for _, d := range sorted {
		list = append(list, Subscription{Peer: d.peer, OnFastPath: h.fast.serves(d), Forward: d.delivery.forward})
	}
	h.mu.Unlock()
	for i, d := range sorted { // a set's lock comes before a hub's
		list[i].Rendition = d.renditionStatus()
	}
	return list, all, true
}

// byID returns the hub of the track with an id, or nil.
func (r Report) byID(id uint64) *Hub {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range where(maps.Values(r.hubs), func(h *Hub) bool { return h.id == id }) {
		return h
	}
	return nil
}

// Viewers returns the largest number of subscribers that one of the tracks in a namespace has.
func (r Report) Viewers(at names.Place) (most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := maxViewedTracks
	for h := range r.Directory.tracks.At(at) {
		h.mu.Lock()
		most = max(most, len(h.subscribers.all))
		h.mu.Unlock()
		if left--; left == 0 {
			break
		}
	}
	return most
}

// Upstreams counts the subscriptions at publishers.
func (r Report) Upstreams() int {
	return r.sum(func(h *Hub) int {
		return count(where(h.publishers.all(), func(u *upstream) bool { return !u.peer.Hidden }))
	})
}

// Downstreams counts the subscriptions of peers.
func (r Report) Downstreams() int {
	return r.sum(func(h *Hub) int {
		return count(h.subscribers.where(func(d *downstream) bool { return !d.peer.Hidden }))
	})
}

// Fetches counts the FETCHes that are being answered.
func (r Report) Fetches() int { return r.sum(func(h *Hub) int { return len(h.fetches) }) }

// sum adds up n of all hubs.
func (r Report) sum(n func(*Hub) int) (total int) {
	r.eachHub(func(h *Hub) { total += n(h) })
	return total
}
