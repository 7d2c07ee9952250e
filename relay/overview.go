package relay

import (
	"cmp"
	"maps"
	"slices"
)

// Overview describes the tracks of a relay, and counts who publishes them and who is subscribed.
type Overview struct {
	Tracks     []TrackStatus // in the order in which they came
	Publishers int           // direct peers that publish
	Viewers    int           // direct peers that are subscribed
	Received   uint64        // bytes that publishers and upstream relays have sent, ever
}

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

// Overview describes the tracks. It takes the lock of each of them.
func (r *Relay) Overview() Overview {
	o := Overview{Received: r.metrics.received.Load()}
	publish, view := make(map[*peer]struct{}), make(map[*peer]struct{})
	r.directory.eachHub(func(h *hub) {
		o.Tracks = append(o.Tracks, h.statusLocked())
		for u := range h.publishers.where(broughtFrom(here)) {
			publish[u.peer] = struct{}{}
		}
		for d := range h.subscribers.where(func(d *downstream) bool { return d.peer.from == here }) {
			view[d.peer] = struct{}{}
		}
	})
	o.Publishers, o.Viewers = len(publish), len(view)
	slices.SortFunc(o.Tracks, func(a, b TrackStatus) int { return cmp.Compare(a.ID, b.ID) })
	return o
}

// statusLocked describes the track; mu is held.
func (h *hub) statusLocked() TrackStatus {
	return TrackStatus{
		ID: h.id, Scope: h.place[0], Name: h.name.String(), Subscribers: len(h.subscribers.all),
		Bytes: h.received.Load(), Publishers: count(h.publishers.where(isEstablished)),
		OnFastPath: count(h.subscribers.where(h.fast.serves)),
	}
}

// SubscriberStatus describes a subscription to a track, and the session that it belongs to.
type SubscriberStatus struct {
	Session    SessionStatus // without the numbers of its tracks
	OnFastPath bool          // the kernel forwards the track to it
	Forward    bool          // it wants objects now
	// Rendition is the set that the subscription belongs to, if the relay chooses which one of several is served.
	Rendition *RenditionStatus
}

// Subscribers describes up to limit subscribers of the track with an id, the oldest sessions first, and tells how many
// there are. It returns false if there is no such track.
func (r *Relay) Subscribers(id uint64, limit int) (list []SubscriberStatus, all int, ok bool) {
	h := r.directory.byID(id)
	if h == nil {
		return nil, 0, false
	}
	subscribers, list := h.listSubscribers()
	all = len(subscribers)
	for i, d := range subscribers[:min(limit, all)] {
		list[i].Session, list[i].Rendition = statusOf(d.peer), d.renditionStatus()
	}
	return list[:min(limit, all)], all, true
}

// listSubscribers returns the subscribers, the oldest sessions first, and what the hub knows of them.
func (h *hub) listSubscribers() (all []*downstream, list []SubscriberStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all = slices.SortedFunc(maps.Keys(h.subscribers.all), func(a, b *downstream) int {
		return cmp.Compare(a.peer.id, b.peer.id)
	})
	for _, d := range all {
		list = append(list, SubscriberStatus{OnFastPath: h.fast.serves(d), Forward: d.delivery.forward})
	}
	return all, list
}
