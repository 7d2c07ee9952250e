package hub

import (
	"context"
	"iter"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/track"
)

// serveFetch answers a FETCH of a peer, or a fill, until it ends. A fill has no permission of its own.
func (h *Hub) serveFetch(p *Peer, req fetch.Request, params *moqt.Parameters, wanted moqt.Range, permit Permit) {
	d := h.directory
	by := fetch.Client{Version: p.Session.Version(), Payers: p.Payers(), Turns: &p.turns}
	f := fetch.New(&d.Fetch, fetchedTrack{h, asker{p, params.HopPath}}, by, req, params, wanted)
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

// fetchedTrack is a hub as far as a peer may fetch from it. It implements fetch.Hub.
type fetchedTrack struct {
	hub *Hub
	by  asker
}

// Data implements fetch.Hub.
func (t fetchedTrack) Data() *track.Track { return t.hub.track() }

// Properties implements fetch.Hub.
func (t fetchedTrack) Properties() moqt.Properties {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	return t.hub.description.properties
}

// Extent implements fetch.Hub.
func (t fetchedTrack) Extent() *moqt.Location {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	return t.hub.description.extent
}

// Covers implements fetch.Hub.
func (t fetchedTrack) Covers(end moqt.Location) bool {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	return t.hub.description.covers(end)
}

// MayArrive implements fetch.Hub. An object may come on a stream that is arriving, as the first one of its group, or
// because it is of the group with which a publisher begins.
func (t fetchedTrack) MayArrive(data *track.Track, l moqt.Location) bool {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	s := &t.hub.publishers
	return data.MayArrive(l, s.bringWhole(l.Group)) || s.beginWith(l.Group) && len(data.Segments(l.Group)) == 0
}

// MayGrow implements fetch.Hub. A publisher of this process may have moved to the process that asks. A later object may
// have come there already, while earlier ones are still on their way to this process.
func (t fetchedTrack) MayGrow() bool {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	return t.by.peer.From == Beside && t.hub.publishers.have(broughtFrom(Here))
}

// Learn implements fetch.Hub.
func (t fetchedTrack) Learn(ctx context.Context) *moqt.RequestError { return inquiry(t).learn(ctx) }

// Sources implements fetch.Hub.
func (t fetchedTrack) Sources(ctx context.Context, budget *fetch.Budget) iter.Seq[fetch.Source] {
	return func(yield func(fetch.Source) bool) {
		for p := range t.hub.choice.sources(ctx, budget, t.by) {
			if !yield(fetchSource{p, t.hub}) {
				return
			}
		}
	}
}

// Begin implements fetch.Hub.
func (t fetchedTrack) Begin(f *fetch.Fetch) (end func()) {
	return enter(t.hub, t.hub.fetches, f, struct{}{})
}

// fetchSource is a publisher that is asked for objects. It implements fetch.Source.
type fetchSource struct {
	peer *Peer
	hub  *Hub
}

// Session implements fetch.Source.
func (s fetchSource) Session() *session.Session { return s.peer.Session }

// Payers implements fetch.Source.
func (s fetchSource) Payers() charge.Payers { return s.peer.Payers() }

// Fetch implements fetch.Source.
func (s fetchSource) Fetch(ctx context.Context, r moqt.Range, p moqt.Parameters) (*session.Fetch, error) {
	return s.peer.Session.Fetch(ctx, moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: s.peer.nameOf(s.hub), Start: r.Start, End: r.FetchEnd(), Parameters: p,
	})
}

// Begin implements fetch.Source.
func (s fetchSource) Begin(request *session.Fetch) (end func()) {
	return enter(s.hub, s.hub.fetching, request, s.peer)
}

// Accepted implements fetch.Source.
func (s fetchSource) Accepted(data *track.Track, ok *moqt.FetchOK, end moqt.Location) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.description.learnFetched(data, ok, end)
	s.hub.bringsLocked(s.peer)
}

// Malformed implements fetch.Source. The publisher may have no subscription.
func (s fetchSource) Malformed(err error) {
	s.hub.mu.Lock()
	u := s.hub.publishers.of[s.peer]
	s.hub.mu.Unlock()
	if u != nil {
		s.hub.malformed(u, err)
	}
}

// PassOn implements fetch.Source.
func (s fetchSource) PassOn(e *moqt.RequestError) *moqt.RequestError { return passOn(e) }

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
