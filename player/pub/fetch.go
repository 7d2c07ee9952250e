package pub

import (
	"context"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// HandleFetch implements [session.Handler].
func (h *handler) HandleFetch(f *session.IncomingFetch) {
	t := h.lookup(f.Request, f.Track)
	if t == nil {
		return
	}
	wanted := f.Range
	if largest := t.largest(); largest != nil {
		wanted = f.RangeFrom(*largest)
	}
	objects, lost, ok := t.answer(wanted)
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
	order := f.Message.Parameters.Order(moqt.Ascending)
	if err := sendFetch(f, f.Session().Version(), order, objects, lost); err != nil {
		h.log.Debug("fetch cancelled", "track", t.name, "err", err)
		f.Cancel(moqt.ResetCancelled)
		return
	}
	_ = f.Done() // fails only if the fetch is over
}

// fill serves the fill that a subscription asks for, if it does (draft-20 §5.1.3).
func (d *delivery) fill(f *session.FillRequest) {
	if f == nil {
		return
	}
	ok := d.spawn(func() {
		defer func() { _ = f.Done() }() // never fails
		defer context.AfterFunc(d.ctx, func() { _ = f.Done() })()
		objects, lost := d.track.fetch(f.Range)
		order := f.Parameters.Order(d.track.properties.DefaultPublisherGroupOrder())
		_ = sendFetch(f, d.pub.Session().Version(), order, objects, lost) // fails only if the fill was cancelled
	})
	if !ok {
		_ = f.Done()
	}
}

// fetchRequest is a FETCH, or a fill.
type fetchRequest interface {
	Context() context.Context
	OpenStream(context.Context) (transport.SendStream, error)
}

// sendFetch sends the response to a FETCH. Objects that the track no longer keeps are reported as unknown.
func sendFetch(
	f fetchRequest, v moqt.Version, order moqt.GroupOrder, objects []*object, lost *moqt.Location,
) error {
	stream, err := f.OpenStream(f.Context())
	if err != nil {
		return err
	}
	encoder := moqt.NewFetchEncoder(v, order)
	// The lost objects would come last, but a marker needs an object after it.
	truncated := order == moqt.Descending && lost != nil
	if truncated {
		lost = nil
	}
	for _, i := range fetchItems(objects, lost, order, v) {
		b, err := encoder.AppendObject(nil, &i.FetchObject)
		if err != nil {
			return err
		}
		if _, err := stream.Write(append(b, i.payload...)); err != nil {
			return err
		}
	}
	if truncated {
		stream.CancelWrite(uint64(moqt.ResetUnknownObjectStatus)) // a FIN before it would say that all came
		return nil
	}
	return stream.Close()
}

// fetchItem is an object or a marker of a response to FETCH.
type fetchItem struct {
	moqt.FetchObject
	payload []byte
}

// fetchItems returns the response in the requested group order.
func fetchItems(
	objects []*object, lost *moqt.Location, order moqt.GroupOrder, v moqt.Version,
) (items []fetchItem) {
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
			Properties: o.wireProperties(v), PayloadLength: uint64(len(o.payload)),
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
