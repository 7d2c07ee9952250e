package sub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/client"
	"sluice/moqt"
	"sluice/moqt/session"
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

// subscribe subscribes to a track, and waits for the answer. The relay waits for a publisher for the given time.
func subscribe(
	ctx context.Context, cfg *PlayerConfig, l *client.Link, m moqt.Subscribe, wait time.Duration, r session.Receiver,
) (*session.Subscription, *moqt.Location, error) {
	m.Parameters.AuthorizationTokens = cfg.Client.Tokens
	if ms := uint64(wait.Milliseconds()); ms > 0 {
		m.Parameters.RendezvousTimeout = &ms
	}
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

// fetch fetches objects from before the start of a subscription, up to largest. If the version has no joining fetch, or
// it is refused, as it is when the subscription has ended meanwhile, it tries a standalone fetch.
func fetch(
	ctx context.Context, cfg *PlayerConfig, s *session.Subscription,
	m moqt.Fetch, largest moqt.Location, object func(item),
) error {
	if s.Session().Version().HasJoiningFetch() {
		m.JoiningRequestID = s.ID()
		err := readFetched(ctx, cfg, s.Session(), m, object)
		if _, refused := errors.AsType[*moqt.RequestError](err); !refused {
			return err
		}
	}
	r := m.JoiningRange(largest)
	return readFetched(ctx, cfg, s.Session(), moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: s.Track(), Start: r.Start, End: r.FetchEnd(),
	}, object)
}

func readFetched(ctx context.Context, cfg *PlayerConfig, s *session.Session, m moqt.Fetch, object func(item)) error {
	m.Parameters.AuthorizationTokens = cfg.Client.Tokens
	f, err := s.Fetch(ctx, m)
	if err != nil {
		return err
	}
	defer f.Cancel(moqt.ResetCancelled)
	stream, err := f.Stream(ctx)
	if err != nil {
		return err
	}
	if err := readFetch(s.Version(), stream, object); err != nil {
		closeOnViolation(s, err)
		return err
	}
	_, err = f.Wait(ctx)
	return err
}

// closeOnViolation ends a session whose peer violates the protocol.
func closeOnViolation(l *session.Session, err error) {
	if e, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		l.Close(e.Code, e.Reason)
	}
}

// firstObject returns the first object of the current group of a track: the whole content of a catalog or an init
// segment.
func firstObject(ctx context.Context, cfg *PlayerConfig, l *client.Link, name string) ([]byte, error) {
	first := make(chan []byte, 1)
	take := func(i item) {
		if i.location.Object == 0 {
			select {
			case first <- i.payload:
			default:
			}
		}
	}
	full := moqt.FullTrackName{Namespace: cfg.Namespace, Name: name}
	s, largest, err := subscribe(ctx, cfg, l, request(full, fromNow), cfg.Wait, &plainReceiver{take})
	if err != nil {
		return nil, err
	}
	defer s.Cancel(moqt.ResetCancelled)
	again := time.NewTimer(0)
	defer again.Stop()
	if largest == nil {
		again.Stop()
	}
	timeout := time.NewTimer(firstObjectTimeout)
	defer timeout.Stop()
	for {
		select {
		case payload := <-first:
			return payload, nil
		case <-again.C:
			// The relay may not have the object yet, if its publisher does not answer FETCH.
			if err := fetch(ctx, cfg, s, moqt.Fetch{FetchType: moqt.FetchRelativeJoining}, *largest, take); err != nil {
				cfg.Client.Logger.Debug("cannot fetch, trying again", "track", name, "error", err)
			}
			again.Reset(fetchAgain) // also if the response has a marker instead of the object
		case <-s.Context().Done():
			return nil, fmt.Errorf("track %s: %w", name, context.Cause(s.Context()))
		case <-timeout.C:
			return nil, &MediaError{fmt.Errorf("track %s has no object", name)}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

const (
	firstObjectTimeout = 10 * time.Second       // from the publisher's acceptance of the subscription to the object
	fetchAgain         = 250 * time.Millisecond // until a FETCH without that object is repeated
)

// plainReceiver passes on all objects as they come.
type plainReceiver struct{ object func(item) }

// HandleSubgroup implements [session.Receiver].
func (r *plainReceiver) HandleSubgroup(g *session.Subgroup) {
	closeOnViolation(g.Subscription.Session(), readSubgroup(g, func(h moqt.ObjectHeader, i item) {
		if h.Status == moqt.StatusNormal {
			r.object(i)
		}
	}))
}

// HandleDatagram implements [session.Receiver].
func (r *plainReceiver) HandleDatagram(o *moqt.ObjectDatagram) {
	if o.Status == moqt.StatusNormal {
		r.object(item{location: o.Location, priority: o.Priority, payload: o.Payload, arrived: time.Now()})
	}
}
