package session

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/time/rate"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// loadClass is a class of requests that share a limit.
type loadClass int

const (
	loadSubscriptions loadClass = iota
	loadFetches
	loadNamespaces
	loadClasses
)

func classOf(kind moqt.MessageType) loadClass {
	switch kind {
	case moqt.MessageSubscribe, moqt.MessagePublish:
		return loadSubscriptions
	case moqt.MessageFetch, moqt.MessageTrackStatus:
		return loadFetches
	}
	return loadNamespaces
}

// responder serves the requests of the peer.
type responder struct {
	s      *Session
	ids    requestIDs
	tokens tokenCache
	rate   *rate.Limiter // of requests and updates
	// acceptRate limits all requests, refused ones included. Requests beyond it wait in the transport until the peer
	// has used up its streams.
	acceptRate *rate.Limiter

	// Guarded by s.mu.
	load [loadClasses]int // open requests
	kept keptTokens
}

// maxRefusals is acceptRate as a multiple of RequestRate.
const maxRefusals = 10

func (p *responder) init(s *Session) {
	*p = responder{
		s:          s,
		ids:        requestIDs{parity: uint64(1 - s.cfg.Role)},
		tokens:     tokenCache{limit: uint64(s.cfg.MaxAuthTokenCacheSize)},
		rate:       rate.NewLimiter(rate.Limit(s.cfg.RequestRate), s.cfg.RequestBurst),
		acceptRate: rate.NewLimiter(rate.Limit(maxRefusals*s.cfg.RequestRate), maxRefusals*s.cfg.RequestBurst),
		kept:       keptTokens{limit: uint64(s.cfg.MaxAuthTokenMemory)},
	}
}

// accept serves the requests of the peer. Requests that arrive before SETUP wait in the transport, within its limits
// (draft §3.3).
func (p *responder) accept() {
	s := p.s
	serve := p.serve
	if s.shared != nil {
		serve = s.shared.serve // the control stream is among them
	} else if s.control.awaitReady(s.ctx) != nil {
		return
	}
	for {
		stream, err := s.conn.AcceptStream(s.ctx)
		if err == nil {
			err = p.acceptRate.Wait(s.ctx)
		}
		if err != nil {
			s.failUnlessEnded(err)
			return
		}
		s.spawn(func() { serve(stream) })
	}
}

// serve runs a request of the peer.
func (p *responder) serve(stream transport.Stream) {
	in := newInbox(p.s, stream)
	m, err := in.first()
	if err != nil {
		p.giveUp(stream, err)
		return
	}
	p.run(stream, in, m)
}

// run runs a request of the peer that starts with m.
func (p *responder) run(stream requestStream, in messageSource, m moqt.Message) {
	p.awaitCancel(m)
	r := new(Request)
	r.init(p.s, stream, m.Type(), true)
	refused, err := p.enter(r, m)
	if err != nil {
		p.s.fail(err)
		return
	}
	p.runEntered(r, in, refused)
}

// runEntered runs a request that enter has added to the table.
func (p *responder) runEntered(r *Request, in messageSource, refused *moqt.RequestError) {
	r.watch()
	p.s.log.Debug("receive", "message", r.kind, "stream", r.stream.ID(), "request", r.id)
	if refused != nil {
		p.s.cfg.Refused(refused.Code)
		_ = r.Reject(refused) // fails only if the peer has cancelled the request
	} else {
		p.s.spawn(func() { r.role.serve(p.s.cfg.Handler) })
	}
	requestReader{r, in}.run()
}

// cancelTime is how long a SUBSCRIBE waits for the end of one to the same track.
const cancelTime = 100 * time.Millisecond

// awaitCancel lets a SUBSCRIBE wait a moment if there is a subscription to the track. The peer may have cancelled that
// and subscribed again: as streams have no order, the end may be noticed last.
func (p *responder) awaitCancel(m moqt.Message) {
	sub, ok := m.(*moqt.Subscribe)
	if !ok || p.s.version.HasSharedTracks() {
		return
	}
	p.s.mu.Lock()
	first := p.s.table.publications[sub.Track.Key()]
	p.s.mu.Unlock()
	if first == nil {
		return
	}
	ctx, stop := context.WithTimeout(first.ctx, cancelTime)
	defer stop()
	<-ctx.Done()
}

// giveUp closes a stream on which no request arrived because of err.
func (p *responder) giveUp(stream transport.Stream, err error) {
	code := moqt.ResetCancelled
	_, malformed := errors.AsType[*moqt.MalformedTrackError](err)
	_, reset := errors.AsType[*transport.StreamError](err)
	switch {
	case malformed:
		code = moqt.ResetMalformedTrack
	case reset, errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded): // the stream was never used
	default:
		p.s.failUnlessEnded(err)
	}
	stream.CancelRead(uint64(code))
	stream.CancelWrite(uint64(code))
}

// enter checks a request, and adds it to the table. It returns a REQUEST_ERROR if the request has to be refused, and an
// error if the session has to end.
func (p *responder) enter(r *Request, m moqt.Message) (*moqt.RequestError, error) {
	s := p.s
	where := moqt.Context{Server: s.cfg.Role == Server, Hops: s.control.hops()}
	if err := where.Check(s.version, m); err != nil {
		return nil, err
	}
	fields := moqt.PartsOf(m)
	r.id = *fields.RequestID
	if r.stream.ID() >= 0 { // else the control stream's reader has
		s.qlog.Message(qlog.Parsed, r.stream.ID(), r.id, m)
	}
	// Tokens come first: they are registered even if the request is refused (draft §10.2.2).
	tokens, repeated, err := p.tokens.resolve(fields.Parameters.AuthorizationTokens, false)
	if err != nil {
		return nil, err
	}
	fields.Parameters.AuthorizationTokens = nil
	r.role = newRole(r, m)

	s.mu.Lock()
	defer s.mu.Unlock()
	r.awaited.beginLocked(r, fields.Track)
	if err := p.ids.use(r.id); err != nil { // with mu held, so that tryJoin does not see an id without its request
		return nil, err
	}
	s.table.requests[r.id] = r
	if err := s.table.checkAlias(r.role); err != nil {
		return nil, err
	}
	refused := p.refusalLocked(r, fields.Track.Namespace, repeated)
	if refused == nil {
		refused = s.control.cameBack(r.kind, fields.Parameters)
	}
	if refused == nil {
		refused = s.responder.checkFilters(fields.Parameters, false)
	}
	if refused == nil {
		refused = p.keepLocked(r, tokens)
	}
	if refused == nil {
		err = r.role.admitLocked()
		refused, _ = errors.AsType[*moqt.RequestError](err)
	}
	if refused != nil {
		return refused, nil
	}
	s.table.notify()
	return nil, err
}

// refusalLocked counts a request, and returns why it cannot be served, whatever its type. s.mu is held.
func (p *responder) refusalLocked(r *Request, ns moqt.Namespace, repeatedToken bool) *moqt.RequestError {
	class := classOf(r.kind)
	p.load[class]++
	switch {
	case p.s.control.goawaySent:
		return refuse(moqt.RequestGoingAway, "a GOAWAY was sent")
	case repeatedToken:
		return refuse(moqt.RequestMalformedAuthToken, "an authorization token is repeated")
	case ns.IsForbidden() || ns.IsSession():
		return refuse(moqt.RequestDoesNotExist, "the namespace is reserved")
	case p.load[class] > p.s.cfg.of(class):
		return overloaded("too many requests are open")
	case !p.rate.Allow() || !p.s.cfg.Pacer.Allow():
		return overloaded("too many requests")
	}
	return nil
}

// checkFilters returns the refusal of a request or update with Range Filters that are invalid, or too many.
func (p *responder) checkFilters(params *moqt.Parameters, update bool) *moqt.RequestError {
	limit := uint64(p.s.cfg.MaxFilterRanges)
	err := params.RangeFilters.Check(limit, update)
	if err == nil && params.Fill != nil {
		err = params.Fill.RangeFilters.Check(limit, false)
	}
	if err != nil {
		return refuse(moqt.RequestInvalidFilter, "%v", err)
	}
	return nil
}

// keepLocked keeps the tokens of a request until it ends, if there is room for them. s.mu is held.
func (p *responder) keepLocked(r *Request, tokens []moqt.Token) *moqt.RequestError {
	if !p.kept.add(tokens) {
		return errTokenMemory
	}
	r.tokens = tokens
	return nil
}

// forgetLocked makes room for the tokens of other requests than one that has ended. s.mu is held.
func (p *responder) forgetLocked(r *Request) {
	p.kept.remove(r.tokens)
	for _, u := range r.peerUpdates {
		p.kept.remove(u.Tokens)
	}
}

// retryOverloaded is the time after which the peer may repeat a request that was refused because of a limit.
const retryOverloaded = time.Second

func overloaded(reason string) *moqt.RequestError {
	e := refuse(moqt.RequestExcessiveLoad, "%s", reason)
	e.SetRetry(retryOverloaded)
	return e
}

// newRole returns our side of a request of the peer.
func newRole(r *Request, m moqt.Message) role {
	switch m := m.(type) {
	case *moqt.Subscribe:
		return newSubscribed(r, m)
	case *moqt.Publish:
		return newPublished(r, m)
	case *moqt.Fetch:
		return &IncomingFetch{Request: r, Message: *m}
	case *moqt.TrackStatus:
		return &IncomingTrackStatus{Request: r, Message: *m}
	case *moqt.PublishNamespace:
		return &IncomingPublishNamespace{Request: r, Message: *m}
	case *moqt.SubscribeNamespace:
		return &IncomingSubscribeNamespace{prefixSubscription: prefixSubscription{Request: r}, Message: *m}
	default:
		return &IncomingSubscribeTracks{
			prefixSubscription: prefixSubscription{Request: r}, Message: *m.(*moqt.SubscribeTracks),
		}
	}
}

// mayArrive reports whether a request of the peer may still be on its way.
func (p *responder) mayArrive(id uint64) bool { return id%2 == p.ids.parity && !p.ids.isUsed(id) }
