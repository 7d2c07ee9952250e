// Package clienttest has a relay in memory, for tests of publishers and players.
package clienttest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// Relay passes on requests and data between a publisher and players. It has no cache, and each track has one subscriber
// at a time.
type Relay struct {
	// Tamper may replace the subgroup stream of a publisher before it is passed on, or delay it. nil: no stream is
	// replaced.
	Tamper func(track moqt.FullTrackName, h moqt.SubgroupHeader, stream io.Reader) io.Reader
	// Refuse has refusals of requests, by message type.
	Refuse map[moqt.MessageType]*moqt.RequestError
	// Refused are names of tracks to which the relay accepts no subscriptions; those to Broken ones it accepts, and
	// ends with an error at once.
	Refused, Broken []string
	// Serves makes the relay choose renditions: it reports whether a group comes from a track. nil: it cannot choose.
	Serves func(track string, group uint64) bool
	// Transport configures the connections.
	Transport transporttest.PipeConfig

	mu          sync.Mutex
	publisher   *session.Session // the latest one
	namespace   moqt.Namespace
	changed     chan struct{}
	sessions    []*session.Session
	Dialed      []string        // URLs, in order
	Playback    []moqt.Playback // that players have reported
	Unreachable bool
}

// Dial is a [client.SessionConfig.Dial] that connects to the relay.
func (r *Relay) Dial(_ context.Context, url string, _ transport.ClientConfig) (transport.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Dialed = append(r.Dialed, url)
	if r.Unreachable {
		return nil, errors.New("connection refused")
	}
	client, server := transporttest.Pipe(r.Transport)
	s, err := session.New(server, session.Config{
		Role: session.Server, Handler: &handler{relay: r}, Logger: slog.New(slog.DiscardHandler),
		Renditions: r.Serves != nil,
	})
	if err != nil {
		return nil, err
	}
	r.sessions = append(r.sessions, s)
	go func() { _ = s.Run(context.Background()) }() // the client sees the error
	return client, nil
}

// SetReachable sets whether new connections are accepted.
func (r *Relay) SetReachable(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Unreachable = !yes
}

// Sessions returns the sessions of all connections so far, in order.
func (r *Relay) Sessions() []*session.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*session.Session(nil), r.sessions...)
}

// Close ends all sessions with a code.
func (r *Relay) Close(code moqt.SessionErrorCode, reason string) {
	for _, s := range r.Sessions() {
		s.Close(code, reason)
	}
}

// publish records a publisher, or with nil that it has left.
func (r *Relay) publish(s *session.Session, ns moqt.Namespace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publisher, r.namespace = s, ns
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *Relay) withdraw(s *session.Session) {
	r.mu.Lock()
	current := r.publisher == s
	r.mu.Unlock()
	if current {
		r.publish(nil, nil)
	}
}

// publisherOf waits for the publisher of a track, with a session: withdraw may be late.
func (r *Relay) publisherOf(ctx context.Context, t moqt.FullTrackName, wait time.Duration) *session.Session {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		r.mu.Lock()
		if p := r.publisher; p != nil && p.Context().Err() == nil && t.Namespace.HasPrefix(r.namespace) {
			defer r.mu.Unlock()
			return r.publisher
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// handler serves one connection.
type handler struct {
	session.Unsupported
	relay *Relay
}

func (h *handler) refuses(r *session.Request, kind moqt.MessageType) bool {
	e := h.relay.Refuse[kind]
	return e != nil && r.Reject(e) == nil
}

// HandlePublishNamespace implements [session.Handler].
func (h *handler) HandlePublishNamespace(p *session.IncomingPublishNamespace) {
	if h.refuses(p.Request, moqt.MessagePublishNamespace) || p.OK() != nil {
		return
	}
	s := p.Session()
	h.relay.publish(s, p.Message.Namespace)
	context.AfterFunc(p.Context(), func() { h.relay.withdraw(s) })
}

var doesNotExist = &moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "there is no publisher"}

// HandleSubscribe implements [session.Handler].
func (h *handler) HandleSubscribe(p *session.Publication) {
	if h.refuses(p.Request, moqt.MessageSubscribe) {
		return
	}
	if slices.Contains(h.relay.Refused, p.Track().Name) {
		reject(p.Request, doesNotExist)
		return
	}
	parameters := p.Parameters()
	var wait time.Duration
	if parameters.RendezvousTimeout != nil {
		wait = moqt.Milliseconds(*parameters.RendezvousTimeout)
	}
	f := &copier{relay: h.relay, to: p, accepted: make(chan struct{})}
	s, ok, err := h.subscribe(p, f, time.Now().Add(wait))
	if err != nil {
		reject(p.Request, err)
		return
	}
	if p.Accept(moqt.Parameters{LargestObject: ok.Parameters.LargestObject}, ok.Properties) != nil {
		s.Cancel(moqt.ResetCancelled)
		return
	}
	if slices.Contains(h.relay.Broken, p.Track().Name) {
		s.Cancel(moqt.ResetCancelled)
		_ = p.Done(moqt.DoneInternalError, "more than one subgroup")
		return
	}
	close(f.accepted)
	for {
		select {
		case u := <-p.Updates():
			h.relay.update(u)
		case <-s.Context().Done():
			code, reason := moqt.DoneInternalError, "the publisher is gone"
			if done, ok := errors.AsType[*session.DoneError](context.Cause(s.Context())); ok {
				code, reason = done.Status, done.Reason
			}
			_ = p.Done(code, reason)
			return
		case <-p.Context().Done():
			s.Cancel(moqt.ResetCancelled)
			return
		}
	}
}

// update accepts an update, of which only the report of a player counts.
func (r *Relay) update(u *session.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := u.Parameters.Playback; p != nil {
		r.Playback = append(r.Playback, *p)
	}
	_ = u.OK(moqt.Parameters{}) // fails only if the subscription is over
}

// subscribe subscribes to a track when there is a publisher and no other subscriber of the track.
func (h *handler) subscribe(
	p *session.Publication, f *copier, until time.Time,
) (*session.Subscription, *moqt.SubscribeOK, error) {
	params := p.Parameters()
	m := moqt.Subscribe{Track: p.Track(), Parameters: moqt.Parameters{Filter: params.Filter, Forward: params.Forward}}
	if params.Rendition != nil {
		m.Parameters.Forward = nil
	}
	for {
		up := h.relay.publisherOf(p.Context(), p.Track(), time.Until(until))
		if up == nil {
			return nil, nil, doesNotExist
		}
		s, err := up.Subscribe(p.Context(), m, f)
		if err == nil {
			ok, err := s.Wait(p.Context())
			return s, ok, err
		}
		if !errors.Is(err, session.ErrDuplicate) || time.Now().After(until) {
			return nil, nil, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// reject passes on a refusal.
func reject(r *session.Request, err error) {
	e, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		e = doesNotExist
	}
	_ = r.Reject(e)
}

// HandleFetch implements [session.Handler].
func (h *handler) HandleFetch(f *session.IncomingFetch) {
	if h.refuses(f.Request, moqt.MessageFetch) {
		return
	}
	up := h.relay.publisherOf(f.Context(), f.Track, 0)
	if up == nil {
		_ = f.Reject(doesNotExist)
		return
	}
	m := moqt.Fetch{FetchType: moqt.FetchStandalone, Track: f.Track, Start: f.Range.Start, End: f.Range.FetchEnd()}
	m.Parameters.GroupOrder = f.Message.Parameters.GroupOrder
	g, err := up.Fetch(f.Context(), m)
	var from transport.ReceiveStream
	var to transport.SendStream
	if err == nil {
		from, err = g.Stream(f.Context())
	}
	if err != nil {
		reject(f.Request, err)
		return
	}
	if to, err = f.OpenStream(f.Context()); err == nil {
		copyStream(to, from, from)
	}
	ok, err := g.Wait(f.Context())
	if err != nil {
		reject(f.Request, err)
		return
	}
	if f.OK(*ok) == nil {
		_ = f.Done()
	}
}

// copier passes on the data of a subscription.
type copier struct {
	relay    *Relay
	to       *session.Publication
	accepted chan struct{}
}

// HandleSubgroup implements [session.Receiver].
func (f *copier) HandleSubgroup(g *session.Subgroup) {
	select {
	case <-f.accepted:
	case <-f.to.Context().Done():
		return
	}
	if f.to.Parameters().Rendition != nil && !f.relay.Serves(f.to.Track().Name, g.Header.GroupID) {
		g.CancelRead(uint64(moqt.ResetCancelled))
		return
	}
	var from io.Reader = g
	if f.relay.Tamper != nil {
		from = f.relay.Tamper(f.to.Track(), g.Header, g)
	}
	to, err := f.to.OpenSubgroup(f.to.Context(), g.Header)
	if err != nil {
		return
	}
	copyStream(to, from, g)
}

// HandleDatagram implements [session.Receiver].
func (f *copier) HandleDatagram(o *moqt.ObjectDatagram) {
	<-f.accepted
	_ = f.to.SendDatagram(*o)
}

// copyStream copies a stream, and ends the copy as the stream ends.
func copyStream(to transport.SendStream, from io.Reader, stream transport.ReceiveStream) {
	if _, err := io.Copy(to, from); err != nil {
		to.CancelWrite(uint64(moqt.ResetCancelled))
		stream.CancelRead(uint64(moqt.ResetCancelled))
		return
	}
	_ = to.Close()
}
