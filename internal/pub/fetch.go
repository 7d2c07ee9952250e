package pub

import (
	"sluice/moqt"
	"sluice/moqt/session"
)

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
		h.log.Debug("fetch cancelled", "track", t.name, "error", err)
		f.Cancel(moqt.ResetCancelled)
		return
	}
	_ = f.Done() // fails only if the fetch is over
}

// sendFetch sends the response to a FETCH. Objects that the track no longer keeps are reported as unknown.
func sendFetch(f *session.IncomingFetch, objects []*object, lost *moqt.Location) error {
	stream, err := f.OpenStream(f.Context())
	if err != nil {
		return err
	}
	order := f.Message.Parameters.Order(moqt.Ascending)
	encoder := moqt.NewFetchEncoder(f.Session().Version(), order)
	if order == moqt.Descending && lost != nil {
		// The lost objects would come last, but a marker needs an object after it.
		defer stream.CancelWrite(uint64(moqt.ResetUnknownObjectStatus))
		lost = nil
	}
	for _, i := range fetchItems(objects, lost, order, f.Session().Version()) {
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
