package session

import (
	"context"
	"fmt"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// requester sends the requests of this end.
type requester struct {
	s *Session

	// Guarded by s.mu.
	nextID    uint64
	nextAlias uint64
}

func (q *requester) init(s *Session) {
	q.s, q.nextID = s, uint64(s.cfg.Role)
}

// openFunc opens a request stream: requester.waitForStream or requester.tryStream.
type openFunc func(context.Context, moqt.MessageType) (requestStream, error)

func (q *requester) waitForStream(ctx context.Context, kind moqt.MessageType) (requestStream, error) {
	if shared := q.s.shared; shared != nil {
		return shared.open(ctx, kind, true)
	}
	return q.openStream(ctx)
}

func (q *requester) openStream(ctx context.Context) (transport.Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(q.s.ctx, func() { cancel(context.Cause(q.s.ctx)) })()
	return q.s.conn.OpenStreamSync(ctx)
}

func (q *requester) tryStream(ctx context.Context, kind moqt.MessageType) (requestStream, error) {
	if shared := q.s.shared; shared != nil {
		return shared.open(ctx, kind, false)
	}
	return q.s.conn.OpenStream()
}

// request sends a request. Its role has a new Request.
func (q *requester) request(ctx context.Context, open openFunc, m moqt.Message, as role) error {
	if err := q.addHop(ctx, m); err != nil {
		return err
	}
	if err := q.mayRequest(m); err != nil {
		return err
	}
	stream, err := open(ctx, m.Type())
	if err != nil {
		return err
	}
	r := as.base()
	r.init(q.s, stream, m.Type(), false)
	r.role = as
	if err := q.enter(r, m); err != nil {
		if q.s.shared != nil {
			q.s.shared.release()
		}
		r.resetStream(moqt.ResetCancelled)
		return err
	}
	r.watch()
	if r.kind == moqt.MessageTrackStatus {
		r.out.finish()
	}
	timer := time.AfterFunc(q.responseTimeout(m), r.responseTimedOut)
	context.AfterFunc(r.ctx, func() { timer.Stop() })
	reader := requestReader{r, q.s.source(stream)}
	q.s.spawn(reader.run)
	return nil
}

func (q *requester) publish(ctx context.Context, open openFunc, m moqt.Publish) (*Publication, error) {
	m.TrackAlias = q.newAlias()
	p := &Publication{
		Request:    new(Request),
		track:      m.Track,
		alias:      m.TrackAlias,
		asked:      m.Parameters,
		parameters: m.Parameters,
		forward:    m.Parameters.ForwardState(),
		joining:    m.Parameters.LargestObject,
	}
	p.parameters.Fill, p.parameters.LargestObject, p.parameters.HopPath = nil, nil, nil
	p.parameters.AuthorizationTokens, p.parameters.Expires = nil, nil
	m.Parameters = m.Parameters.ForPublish(q.s.version)
	err := q.request(ctx, open, &m, p)
	if err != nil {
		return nil, fmt.Errorf("publish %s: %w", m.Track, err)
	}
	return p, nil
}

// newAlias returns a Track Alias for a track that we publish. An alias is never used again: a receiver could take late
// objects of the old subscription for objects of the new one.
func (q *requester) newAlias() uint64 {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	alias := q.nextAlias
	q.nextAlias++
	return alias
}

// addHop adds this end to the path of a request, once it is known what the peer takes.
func (q *requester) addHop(ctx context.Context, m moqt.Message) error {
	if err := q.s.control.awaitHops(ctx); err != nil {
		return err
	}
	return q.s.control.addHop(m.Type(), moqt.PartsOf(m).Parameters)
}

// mayRequest returns an error if a request cannot be sent, before a stream is opened for it.
func (q *requester) mayRequest(m moqt.Message) error {
	p := moqt.PartsOf(m)
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	switch {
	case q.s.ctx.Err() != nil:
		return context.Cause(q.s.ctx)
	case q.s.control.goawayTaken:
		return ErrGoingAway
	case p.Track.Namespace.IsForbidden(), publishes(m) && p.Track.Namespace.IsSession():
		return ErrReserved
	}
	if err := q.mayFilter(p.Parameters); err != nil {
		return err
	}
	if q.s.version.HasSharedTracks() {
		return nil
	}
	switch m := m.(type) {
	case *moqt.Subscribe:
		return q.s.table.mayBegin(m.Track, false)
	case *moqt.Publish:
		return q.s.table.mayBegin(m.Track, true)
	}
	return nil
}

// mayFilter returns an error if the peer does not take the Range Filters of a request (draft-20 §10.3.1.6). Until its
// SETUP has arrived, it takes none.
func (q *requester) mayFilter(p *moqt.Parameters) error {
	limit := uint64(0)
	if isClosed(q.s.control.known) {
		limit = q.s.control.peer.MaxFilterRanges
	}
	filters := p.RangeFilters
	if p.Fill != nil {
		filters = append(filters[:len(filters):len(filters)], p.Fill.RangeFilters...)
	}
	if len(filters) == 0 {
		return nil
	}
	return filters.Check(limit, true)
}

// enter adds a request to the table, and sends it.
func (q *requester) enter(r *Request, m moqt.Message) error {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	r.id = q.nextID
	err := r.role.admitLocked()
	if err == nil {
		err = q.sendLocked(r, m)
	}
	if err != nil {
		r.endLocked(err)
		return err
	}
	q.s.table.requests[r.id] = r
	return nil
}

// sendLocked sends a message on the stream of r and gives it the next Request ID. s.mu is held.
func (q *requester) sendLocked(r *Request, m moqt.Message) error {
	p := moqt.PartsOf(m)
	if err := checkOwnTokens(p.Parameters.AuthorizationTokens); err != nil {
		return err
	}
	*p.RequestID = q.nextID
	if err := r.send(m, false); err != nil {
		return err
	}
	if sub, ok := r.role.(*Subscription); ok && p.Parameters.Fill != nil {
		q.s.table.awaitFill(q.nextID, sub)
	}
	q.nextID += 2
	return nil
}

// responseTimeout returns how long the response to m may take.
func (q *requester) responseTimeout(m moqt.Message) time.Duration {
	p := moqt.PartsOf(m)
	extra := time.Duration(0)
	for _, asked := range []*uint64{p.Parameters.RendezvousTimeout, p.Parameters.FillTimeout} {
		if asked != nil {
			extra = min(moqt.Milliseconds(*asked), 24*time.Hour)
		}
	}
	return q.s.cfg.ResponseTimeout + extra
}

// hasUsed reports whether this end has used a Request ID.
func (q *requester) hasUsed(id uint64) bool {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	return q.hasUsedLocked(id)
}

// hasUsedLocked reports whether this end has used a Request ID. s.mu is held.
func (q *requester) hasUsedLocked(id uint64) bool {
	return id%2 == uint64(q.s.cfg.Role) && id < q.nextID
}

// publishes reports whether m offers tracks.
func publishes(m moqt.Message) bool {
	return m.Type() == moqt.MessagePublish || m.Type() == moqt.MessagePublishNamespace
}
