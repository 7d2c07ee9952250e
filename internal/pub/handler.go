package pub

import (
	"log/slog"
	"sync"

	"sluice/internal/client"
	"sluice/moqt"
	"sluice/moqt/session"
)

// handler answers the requests of a relay.
type handler struct {
	session.Unsupported
	p     *publisher
	link  *client.Link
	log   *slog.Logger
	moved chan struct{} // closed when another session takes over

	mu     sync.Mutex
	active int           // deliveries
	idle   chan struct{} // closed when the last one has ended
}

// lookup waits until the broadcast is known, and finds a track of it.
func (h *handler) lookup(r *session.Request, name moqt.FullTrackName) *track {
	select {
	case <-h.p.ready:
	case <-r.Context().Done():
		return nil
	}
	t := h.p.broadcast.byName[name.Name]
	if t == nil || !name.Namespace.Equal(h.p.broadcast.namespace) {
		// It fails only if the request is over.
		_ = r.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "there is no such track"})
		return nil
	}
	return t
}

// HandleSubscribe implements [session.Handler].
func (h *handler) HandleSubscribe(p *session.Publication) {
	t := h.lookup(p.Request, p.Track())
	if t == nil {
		return
	}
	largest := t.largest()
	parameters := p.Parameters()
	allowed := t.startOf(parameters.Filter, largest)
	if allowed.Empty() {
		_ = p.Reject(&moqt.RequestError{
			Code: moqt.RequestInvalidRange, Reason: "the range has been published: use FETCH",
		})
		return
	}
	if err := p.Accept(moqt.Parameters{LargestObject: largest}, t.properties); err != nil {
		return // the request is over
	}
	h.log.Debug("subscribed", "track", t.name, "from", allowed.Start, "forward", p.Forward())
	h.serve(t, p, allowed)
	if missed := largest != nil && largest.Less(allowed.Start); missed && t.content != nil {
		t.republish(0)
	}
	t.newGroup(parameters.NewGroupRequest)
}

// serve delivers a track.
func (h *handler) serve(t *track, p *session.Publication, allowed moqt.Range) {
	if t.content == nil {
		h.p.wanted()
	}
	d := newDelivery(t, p, allowed, h.moved)
	h.p.stats.subscriptions.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active++; h.active == 1 {
		h.idle = make(chan struct{})
	}
	go func() {
		d.run()
		h.p.stats.subscriptions.Add(-1)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.active--; h.active == 0 {
			close(h.idle)
		}
	}()
}

// busy returns a channel that is closed when nothing is delivered any more, nil if that is so now.
func (h *handler) busy() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active == 0 {
		return nil
	}
	return h.idle
}

// HandleTrackStatus implements [session.Handler].
func (h *handler) HandleTrackStatus(r *session.IncomingTrackStatus) {
	if t := h.lookup(r.Request, r.Message.Track); t != nil {
		_ = r.OK(moqt.Parameters{LargestObject: t.largest()}, t.properties) // fails only if the request is over
	}
}

// HandleFetch implements [session.Handler].
func (h *handler) HandleFetch(f *session.IncomingFetch) {
	t := h.lookup(f.Request, f.Track)
	if t == nil {
		return
	}
	objects, lost, ok := t.answer(f.Range)
	if ok == nil {
		_ = f.Reject(&moqt.RequestError{
			Code: moqt.RequestInvalidRange, Reason: "nothing of the range has been published",
		})
		return
	}
	ok.Properties = t.properties
	if err := f.OK(*ok); err != nil {
		return
	}
	if err := sendFetch(f, objects, lost); err != nil {
		h.log.Debug("fetch abandoned", "track", t.name, "error", err)
		f.Cancel(moqt.ResetCancelled)
		return
	}
	_ = f.Done() // fails only if the fetch is over
}

// answer returns what there is of a range, and the FETCH_OK that goes with it; nil if there cannot be anything.
func (t *track) answer(r moqt.Range) (objects []*object, lost *moqt.Location, ok *moqt.FetchOK) {
	largest := t.largest()
	if largest == nil || largest.Less(r.Start) {
		return nil, nil, nil
	}
	if largest.Less(r.End) {
		r.End = *largest
	}
	objects, lost = t.fetch(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	return objects, lost, &moqt.FetchOK{EndOfTrack: t.ended && r.End == *largest, End: r.FetchEnd()}
}

// sendFetch sends the response to a FETCH: what is no longer there is reported as unknown.
func sendFetch(f *session.IncomingFetch, objects []*object, lost *moqt.Location) error {
	stream, err := f.OpenStream(f.Context())
	if err != nil {
		return err
	}
	order := f.Message.Parameters.Order(moqt.Ascending)
	encoder := moqt.NewFetchEncoder(order)
	if order == moqt.Descending && lost != nil {
		// What is lost comes last then, and nothing can follow what its marker would refer to.
		defer stream.CancelWrite(uint64(moqt.ResetUnknownObjectStatus))
		lost = nil
	}
	for _, i := range fetchItems(objects, lost, order) {
		b, err := encoder.AppendObject(nil, &i.FetchObject)
		if err != nil {
			return err
		}
		if _, err := stream.Write(append(b, i.payload...)); err != nil {
			return err
		}
	}
	return stream.Close()
}

// fetchItem is an object or a marker of a response to FETCH.
type fetchItem struct {
	moqt.FetchObject
	payload []byte
}

// fetchItems puts the groups into the order that was asked for.
func fetchItems(objects []*object, lost *moqt.Location, order moqt.GroupOrder) (items []fetchItem) {
	var groups [][]fetchItem
	if lost != nil {
		groups = append(groups, []fetchItem{
			{FetchObject: moqt.FetchObject{Kind: moqt.FetchKindUnknown, Location: *lost}},
		})
	}
	for i, o := range objects {
		if i == 0 || o.location.Group != objects[i-1].location.Group {
			groups = append(groups, nil)
		}
		last := &groups[len(groups)-1]
		*last = append(*last, fetchItem{moqt.FetchObject{
			Location: o.location, Datagram: o.datagram, SubgroupID: o.subgroup, Priority: o.priority,
			PayloadLength: uint64(len(o.payload)),
		}, o.payload})
	}
	for i := range groups {
		if order == moqt.Descending {
			i = len(groups) - 1 - i
		}
		items = append(items, groups[i]...)
	}
	return items
}
