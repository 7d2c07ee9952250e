package sub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/client"
)

// Filters of subscriptions: from the next object on, and from the next group on.
var (
	fromNow       = moqt.Filter{Type: moqt.FilterLargestObject}
	fromNextGroup = moqt.Filter{Type: moqt.FilterRelativeStart}
)

// request returns a SUBSCRIBE to a track from where a filter says.
func request(name moqt.FullTrackName, from moqt.Filter) moqt.Subscribe {
	return moqt.Subscribe{Track: name, Parameters: moqt.Parameters{Filter: &from}}
}

// subscribe subscribes to a track, and waits for the answer. The relay waits for a publisher for the given time, or the
// player does, if the version does not let it ask the relay for that.
func subscribe(
	ctx context.Context, cfg *PlayerConfig, l *client.Link, m moqt.Subscribe, wait time.Duration, r session.Receiver,
) (s *session.Subscription, largest *moqt.Location, err error) {
	m.Parameters.AuthorizationTokens = cfg.Client.Tokens
	if ms := uint64(wait.Milliseconds()); ms > 0 {
		m.Parameters.RendezvousTimeout = &ms
	}
	err = untilPublished(ctx, l, wait, func() error {
		s, largest, err = subscribeOnce(ctx, l, m, r)
		return err
	})
	return s, largest, err
}

func subscribeOnce(
	ctx context.Context, l *client.Link, m moqt.Subscribe, r session.Receiver,
) (*session.Subscription, *moqt.Location, error) {
	s, err := l.Subscribe(ctx, m, r)
	if err != nil {
		return nil, nil, err
	}
	ok, err := s.Wait(ctx)
	if err != nil {
		s.Cancel(moqt.ResetCancelled)
		return nil, nil, err
	}
	return s, ok.Parameters.LargestObject, nil
}

// untilPublished calls ask. If the version has no RENDEZVOUS_TIMEOUT, it does so again for as long as nobody publishes,
// for the given time.
func untilPublished(ctx context.Context, l *client.Link, wait time.Duration, ask func() error) error {
	deadline := time.Now().Add(wait)
	for {
		err := ask()
		code, refused := refusal(err)
		if l.Version().HasRendezvous() || !refused || code != moqt.RequestDoesNotExist ||
			time.Now().Add(resubscribe).After(deadline) {
			return err
		}
		select {
		case <-time.After(resubscribe):
		case <-ctx.Done():
			return err
		}
	}
}

// fetch fetches objects from before the start of a subscription, up to largest. If m is not to be joining, or the
// version has no joining fetch, it tries a standalone fetch, and also if a joining fetch is refused, as it is when the
// subscription has ended meanwhile. The rest of a response that breaks off is asked for again: the relay has lost its
// upstream relay within an object.
func fetch(
	ctx context.Context, cfg *PlayerConfig, s *session.Subscription,
	m moqt.Fetch, largest moqt.Location, object func(item),
) error {
	r := m.JoiningRange(largest)
	standalone := moqt.Fetch{FetchType: moqt.FetchStandalone, Track: s.Track(), Start: r.Start, End: r.FetchEnd()}
	if m.FetchType != moqt.FetchStandalone && s.Session().Version().HasJoiningFetch() {
		m.JoiningRequestID = s.ID()
	} else {
		m = standalone
	}
	take := func(i item) {
		standalone.Start = i.location.Next()
		object(i)
	}
	whole := func() bool { return r.End.Less(standalone.Start) } // how the response ends does not matter any more
	err := readFetched(ctx, cfg, s.Session(), m, take)
	_, refused := errors.AsType[*moqt.RequestError](err)
	over := err == nil || whole() || ctx.Err() != nil || errors.Is(err, errMemory) || errors.Is(err, errStalled)
	if !over && !(refused && m.FetchType == moqt.FetchStandalone) {
		err = readFetched(ctx, cfg, s.Session(), standalone, take)
	}
	if whole() {
		return nil
	}
	return err
}

// readFetched reads the response to a FETCH, until the end of ctx, or until nothing comes for a time.
func readFetched(
	ctx context.Context, cfg *PlayerConfig, s *session.Session, m moqt.Fetch, object func(item),
) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(fetchTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	m.Parameters.AuthorizationTokens = cfg.Client.Tokens
	f, err := s.Fetch(ctx, m)
	if err != nil {
		return err
	}
	defer f.Cancel(moqt.ResetCancelled)
	defer context.AfterFunc(ctx, func() { f.Cancel(moqt.ResetCancelled) })() // ends Read
	stream, err := f.Stream(ctx)
	if err != nil {
		return err
	}
	if err := readFetch(s.Version(), timedReader{stream, stalled}, cfg.Memory, object); err != nil {
		closeOnViolation(s, err)
		return err
	}
	stalled.Reset(fetchTimeout)
	_, err = f.Wait(ctx)
	return err
}

// fetchTimeout is how long nothing may come of the response to a FETCH.
const fetchTimeout = firstContentTimeout

var errStalled = fmt.Errorf("nothing has come for %s", fetchTimeout)

// timedReader runs a timer while it waits for bytes, and not while they are taken.
type timedReader struct {
	io.Reader
	timer *time.Timer
}

func (r timedReader) Read(b []byte) (int, error) {
	r.timer.Reset(fetchTimeout)
	defer r.timer.Stop()
	return r.Reader.Read(b)
}

// closeOnViolation ends a session whose peer violates the protocol.
func closeOnViolation(l *session.Session, err error) {
	if e, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		l.Close(e.Code, e.Reason)
	}
}

// plainReceiver passes on all objects as they come.
type plainReceiver struct {
	cfg    *PlayerConfig
	object func(item)
}

// HandleSubgroup implements [session.Receiver].
func (r *plainReceiver) HandleSubgroup(g *session.Subgroup) {
	r.cfg.try(func() {
		closeOnViolation(g.Subscription.Session(), readSubgroup(g, r.cfg.Memory, func(h moqt.ObjectHeader, i item) {
			if h.Status == moqt.StatusNormal {
				r.object(i)
			}
		}))
	})
}

// HandleDatagram implements [session.Receiver].
func (r *plainReceiver) HandleDatagram(o *moqt.ObjectDatagram) {
	if o.Status == moqt.StatusNormal {
		r.cfg.try(func() {
			r.object(item{location: o.Location, priority: o.Priority, payload: o.Payload, arrived: time.Now()})
		})
	}
}
