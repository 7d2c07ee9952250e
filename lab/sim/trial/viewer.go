package trial

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// viewer plays a track from its join on. It moves to another session when the relay asks it to.
type viewer struct {
	// Of the latest session.
	*client
	*oracle
	sub *session.Subscription

	service     *service
	spec        *Viewer
	number      int
	relay, host int
	using       using // by who uses the session, or replaces it
	pauses      []pause
	late        bool   // the relay had objects when the viewer joined
	first       uint64 // the first group whose objects have to come
	left        bool   // so that groups may be missing; guarded by service.mu
}

// using is a mutex for long: time goes on while somebody waits for it, unlike for a sync.Mutex.
type using chan struct{}

func (u using) lock()   { u <- struct{}{} }
func (u using) unlock() { <-u }

// viewer has somebody join.
func (s *service) viewer(relay int, v *Viewer, m *Media) *viewer {
	w := &viewer{
		service: s, spec: v, number: v.Number, relay: relay, host: s.host(relay, v.Client), using: make(using, 1),
	}
	largest, err := w.join(s.t.Context(), m, v.filter())
	s.check(err)
	if largest == nil {
		return w
	}
	w.late, w.first = true, largest.Group+1
	joining := moqt.Fetch{FetchType: moqt.FetchRelativeJoining}
	if v.Only == nil && (!v.Fetch || w.fetch(s.t.Context(), joining, *largest) == nil) {
		w.first = largest.Group
	}
	if !v.Fetch { // the relay sends those that it still has
		w.unknown = append(w.unknown, moqt.Range{Start: moqt.Location{Group: largest.Group}, End: *largest})
	}
	return w
}

// filter returns where the viewer's first subscription begins. Without a filter, it is where the relay wants; one that
// a fetch is for begins behind the largest object.
func (v *Viewer) filter() *moqt.Filter {
	switch {
	case v.Only != nil:
		return v.Only.filter()
	case v.Fetch:
		return fromNow
	}
	return nil
}

// fromNow is the filter of a subscription that begins behind the largest object.
var fromNow = &moqt.Filter{Type: moqt.FilterLargestObject}

// join opens a session, and subscribes to the track there. It returns the relay's largest object.
func (w *viewer) join(ctx context.Context, m *Media, f *moqt.Filter) (largest *moqt.Location, err error) {
	s := w.service
	err = whileAsked(func() error {
		c, err := s.join(w.host, w.relay, w.spec.Client)
		if err != nil {
			return err
		}
		o := newOracle(w.spec, m, w.oracle)
		var sub *session.Subscription
		sub, largest, err = w.subscribe(ctx, c, f, o)
		begin := time.Now()
		for w.spec.Version == moqt.Draft16 && isMissing(err) && time.Since(begin) < rendezvous { // it has none
			time.Sleep(100 * time.Millisecond)
			sub, largest, err = w.subscribe(ctx, c, f, o)
		}
		if err != nil {
			defer c.leave()
			return c.movedBy(err)
		}
		s.mu.Lock()
		w.client, w.oracle, w.sub = c, o, sub
		left := w.left
		s.mu.Unlock()
		if left {
			c.leave()
		}
		return nil
	})
	return largest, err
}

// rendezvous is how long a subscription waits for a publisher.
const rendezvous = 20 * time.Second

// reconnectTime is for how long package client tries to open a session in place of another one.
const reconnectTime = 30 * time.Second

// rejoin is join in place of another session. A NAT that takes another port, for one, ends a handshake. If it does so
// while the relay is not awake, the relay's SETUP does not arrive.
func (w *viewer) rejoin(ctx context.Context, m *Media) (largest *moqt.Location, err error) {
	for begin := time.Now(); time.Since(begin) < reconnectTime; time.Sleep(100 * time.Millisecond) {
		largest, err = w.join(ctx, m, fromNow)
		failed, ok := errors.AsType[*moqt.ProtocolError](err)
		if !errors.Is(err, errNoSession) && !(ok && failed.Code == moqt.SessionControlMessageTimeout) {
			break
		}
	}
	return largest, err
}

// pause is the objects from the first to the last one that a viewer may lack because it did not want them.
type pause struct{ first, last moqt.Location }

// wants reports whether an object has to come, if it is not of a group before the viewer's first.
func (w *viewer) wants(at moqt.Location) bool {
	return (w.only == nil || w.only.has(at.Group)) && !slices.ContainsFunc(w.pauses, func(p pause) bool {
		return !at.Less(p.first) && !p.last.Less(at)
	})
}

// forward sets the Forward State of the subscription.
func (w *viewer) forward(ctx context.Context, on bool) error {
	_, err := w.sub.Update(ctx, moqt.Parameters{Forward: &on})
	return err
}

// wasTooSlow reports whether the relay has ended the subscription because the link carries too little of the media.
func (w *viewer) wasTooSlow() bool {
	done, ok := errors.AsType[*session.DoneError](context.Cause(w.sub.Context()))
	return ok && done.Status == moqt.DoneTooFarBehind && w.spec.Link.Rate > 0
}

// subscribe subscribes to the track, and waits for the answer, which says what the relay's largest object is.
func (w *viewer) subscribe(
	ctx context.Context, c *client, f *moqt.Filter, o *oracle,
) (*session.Subscription, *moqt.Location, error) {
	wait := uint64(rendezvous.Milliseconds())
	p := moqt.Parameters{RendezvousTimeout: &wait, Filter: f}
	w.spec.Timeouts.parameters(&p)
	sub, err := c.Subscribe(ctx, moqt.Subscribe{Track: o.media.track(), Parameters: p}, o)
	if err != nil {
		return nil, nil, err
	}
	ok, err := sub.Wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	return sub, ok.Parameters.LargestObject, nil
}

// predecessor waits for the first object of the latest session, and returns the end of the group before. It is nil if
// there is none, or the subscription has ended.
func (w *viewer) predecessor() *moqt.Location {
	select {
	case group := <-w.begins:
		if group > 0 {
			return &moqt.Location{Group: group - 1, Object: moqt.MaxLocation.Object}
		}
	case <-w.sub.Context().Done():
	}
	return nil
}

// fetch fetches objects before the subscription's first. Not all drafts have a joining fetch, and a relay may refuse
// one. The viewer asks for the rest of a response that breaks off, once, as package sub does: the relay has lost its
// upstream relay within an object.
func (w *viewer) fetch(ctx context.Context, m moqt.Fetch, largest moqt.Location) error {
	m.JoiningRequestID = w.sub.ID()
	r := m.JoiningRange(largest)
	if m.FetchType == moqt.FetchStandalone || !w.Version().HasJoiningFetch() {
		m = w.standalone(r)
	}
	rest, err := w.fetchOnce(ctx, m, r.Start)
	if _, broken := errors.AsType[*transport.StreamError](err); broken {
		_, err = w.fetchOnce(ctx, w.standalone(moqt.Range{Start: rest, End: r.End}), rest)
	}
	return err
}

// standalone returns a FETCH of a range that does not refer to a subscription.
func (w *viewer) standalone(r moqt.Range) moqt.Fetch {
	return moqt.Fetch{FetchType: moqt.FetchStandalone, Track: w.media.track(), Start: r.Start, End: r.FetchEnd()}
}

// fetchOnce fetches objects from a location on, and returns the first one that has not come.
func (w *viewer) fetchOnce(ctx context.Context, m moqt.Fetch, from moqt.Location) (rest moqt.Location, err error) {
	f, err := w.Fetch(ctx, m)
	if err != nil {
		return from, err
	}
	stream, err := f.Stream(ctx)
	if err != nil {
		return from, err
	}
	all, err := io.ReadAll(stream)
	rest = w.takeFetched(moqt.NewFetchParser(w.Version(), moqt.Ascending, 0), from, all)
	if err == nil {
		_, err = f.Wait(ctx)
	}
	return rest, err
}

// mustMove reports whether a request has failed because the relay asks the client to move.
func mustMove(err error) bool {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return errors.Is(err, session.ErrGoingAway) || ok && refused.Code.Effective() == moqt.RequestGoingAway
}

// isMissing reports whether the relay has said that nobody publishes the track.
func isMissing(err error) bool {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return ok && refused.Code.Effective() == moqt.RequestDoesNotExist
}
