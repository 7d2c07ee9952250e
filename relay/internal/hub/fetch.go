package hub

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/relay/internal/fetch"
	"sluice/track"
)

// askedTrack is a hub for a peer that asks for objects, or for the status of the track. It implements fetch.Hub.
type askedTrack struct {
	hub *Hub
	by  asker
}

// Description implements fetch.Hub.
func (t askedTrack) Description() (moqt.Properties, *moqt.Location) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	return t.hub.description.properties, t.hub.description.extent
}

// Covers implements fetch.Hub.
func (t askedTrack) Covers(end moqt.Location) bool {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	d, largest := &t.hub.description, t.hub.data.Largest()
	return t.hub.publishers.forward() ||
		largest != nil && !largest.Less(end) || d.extent != nil && !d.extent.Less(end)
}

// MayArrive implements fetch.Hub. An object may come on a stream that is arriving, as the first one of its group, or
// because it is of the group with which a publisher begins: that was asked for all of its current group, see
// upstream.request. Groups after that come from their start.
func (t askedTrack) MayArrive(data *track.Track, l moqt.Location) bool {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	s := &t.hub.publishers
	whole := s.have(func(u *upstream) bool { return u.largest == nil || u.largest.Group < l.Group })
	begins := s.have(func(u *upstream) bool {
		return u.largest != nil && u.largest.Group == l.Group && time.Since(u.since) < fetch.ArrivalPause
	})
	return data.MayArrive(l, whole) || begins && len(data.Segments(l.Group)) == 0
}

// MayGrow implements fetch.Hub. A publisher of this process may have moved to the process that asks. A later object may
// have come there already, while earlier ones are still on their way to this process.
func (t askedTrack) MayGrow() bool {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	return t.by.peer.From == Beside && t.hub.publishers.have(broughtFrom(Here))
}

// Learn implements fetch.Hub. It asks publishers for the status of the track, unless a subscription provides that
// already, or they tell nothing that is not known.
func (t askedTrack) Learn(ctx context.Context) *moqt.RequestError {
	h, a := t.hub, t.by
	if a.peer.From != Here && !t.hasPublisher(ctx) {
		return fetch.ErrNoSource
	}
	h.mu.Lock()
	known := h.publishers.supply(a).forward
	h.mu.Unlock()
	if known {
		return nil
	}
	failure := fetch.ErrNoSource
	ctx, cancel := context.WithTimeout(ctx, h.directory.Fetch.Fill)
	defer cancel()
	budget := fetch.NewBudget(h.directory.Fetch.Fill, &moqt.Parameters{})
	for p := range h.choice.sources(ctx, &budget, a) {
		ok, err := p.Session.TrackStatus(ctx, moqt.TrackStatus{
			Track: p.nameOf(h), Parameters: moqt.Parameters{HopPath: a.path},
		})
		if err == nil {
			h.mu.Lock()
			h.description.learn(ok.Parameters.LargestObject, ok.Properties)
			h.mu.Unlock()
			return nil
		}
		if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
			failure = fetch.PassOn(refused)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.publishers.supply(a).established {
		return nil
	}
	return failure
}

// hasPublisher reports whether a publisher of this process answers, or can be asked.
func (t askedTrack) hasPublisher(ctx context.Context) bool {
	t.hub.mu.Lock()
	own := slices.Collect(t.hub.publishers.where(broughtFrom(Here)))
	t.hub.mu.Unlock()
	return len(own) == 0 || anyIsThere(ctx, own)
}

// Sources implements fetch.Hub.
func (t askedTrack) Sources(ctx context.Context, budget *fetch.Budget) iter.Seq[fetch.Source] {
	return func(yield func(fetch.Source) bool) {
		for p := range t.hub.choice.sources(ctx, budget, t.by) {
			if !yield(t.hub.source(p)) {
				return
			}
		}
	}
}

// Begin implements fetch.Hub.
func (t askedTrack) Begin(f *fetch.Fetch) (end func()) {
	return enter(t.hub, t.hub.fetches, f, struct{}{})
}

// enter puts a value into a map of a hub, and returns what takes it out.
func enter[K comparable, V any](h *Hub, m map[K]V, key K, v V) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m[key] = v
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(m, key)
	}
}
