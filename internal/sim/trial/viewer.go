package trial

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// viewer plays a track from its join on.
type viewer struct {
	*client
	*oracle
	number int
	sub    *session.Subscription
	pauses []pause
	late   bool   // the relay had objects when the viewer joined
	first  uint64 // the first group of which all objects have to come
	left   bool   // so that groups may be missing
}

// viewer has somebody join.
func (s *service) viewer(relay int, v *Viewer, m *Media) *viewer {
	w := &viewer{client: s.join(relay, v.Client), oracle: newOracle(v, m), number: v.Number}
	sub, largest, err := w.subscribe(s.t.Context(), v)
	for v.Version == moqt.Draft16 && isMissing(err) { // it knows no rendezvous
		time.Sleep(100 * time.Millisecond)
		sub, largest, err = w.subscribe(s.t.Context(), v)
	}
	w.sub = sub
	s.check(err)
	if largest == nil {
		return w
	}
	w.late, w.first = true, largest.Group+1
	if v.Fetch && w.fetch(s.t.Context(), sub, *largest) == nil {
		w.first = largest.Group
	}
	return w
}

// pause is the groups from the first to the last one of which a viewer that did not want objects may lack some.
type pause struct{ first, last uint64 }

// wants reports whether all objects of a group have to come, if it is not one before the viewer's first.
func (w *viewer) wants(group uint64) bool {
	return (w.only == nil || w.only.has(group)) && !slices.ContainsFunc(w.pauses, func(p pause) bool {
		return p.first <= group && group <= p.last
	})
}

// forward sets the Forward State of the subscription.
func (w *viewer) forward(ctx context.Context, on bool) error {
	_, err := w.sub.Update(ctx, moqt.Parameters{Forward: &on})
	return err
}

// subscribe subscribes to the track, and waits for the answer, which says what the relay's largest object is. Without a
// filter, the subscription begins where the relay wants; one that a fetch is for begins behind that object.
func (w *viewer) subscribe(ctx context.Context, v *Viewer) (*session.Subscription, *moqt.Location, error) {
	wait := uint64(20_000)
	p := moqt.Parameters{RendezvousTimeout: &wait}
	switch {
	case v.Only != nil:
		p.Filter = v.Only.filter()
	case v.Fetch:
		p.Filter = &moqt.Filter{Type: moqt.FilterLargestObject}
	}
	sub, err := w.Subscribe(ctx, moqt.Subscribe{Track: track, Parameters: p}, w.oracle)
	if err != nil {
		return nil, nil, err
	}
	ok, err := sub.Wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	return sub, ok.Parameters.LargestObject, nil
}

// fetch fetches the group in which the viewer has joined, up to the object before the first that the subscription
// brings. Not all drafts have a joining fetch, and a relay may refuse one.
func (w *viewer) fetch(ctx context.Context, sub *session.Subscription, largest moqt.Location) error {
	m := moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: sub.ID()}
	if !w.Version().HasJoiningFetch() {
		r := m.JoiningRange(largest)
		m = moqt.Fetch{FetchType: moqt.FetchStandalone, Track: track, Start: r.Start, End: r.FetchEnd()}
	}
	f, err := w.Fetch(ctx, m)
	if err != nil {
		return err
	}
	stream, err := f.Stream(ctx)
	if err != nil {
		return err
	}
	all, err := io.ReadAll(stream)
	w.takeFetched(moqt.NewFetchParser(w.Version(), moqt.Ascending, 0), all)
	if err == nil {
		_, err = f.Wait(ctx)
	}
	return err
}

// isMissing reports whether the relay has said that nobody publishes the track.
func isMissing(err error) bool {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return ok && refused.Code.Effective() == moqt.RequestDoesNotExist
}
