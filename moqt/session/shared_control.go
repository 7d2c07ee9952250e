package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// requestWindow is how many requests and updates the peer may send beyond those that have arrived (MAX_REQUEST_ID). Its
// open requests, and the rate of new ones, have the same limits as in later drafts.
const requestWindow = 1000

// sharedControl is what draft-16 has instead of a stream for each request. One bidirectional stream, opened by the
// client, carries the messages of both ends, which refer to requests by their ids. Only SUBSCRIBE_NAMESPACE has a
// stream of its own (draft-16 §3.3). Here each of the other requests has a sharedStream, which looks like a stream, so
// that all other code of a session is the same for all drafts: messages that end a request become the end of its
// stream, and the end of its stream becomes such a message.
//
// Its mu may be locked while s.mu is held, and not the other way round.
type sharedControl struct {
	s *Session

	mu      sync.Mutex
	streams map[uint64]*sharedStream // of the open requests of both ends
	updates map[uint64]*sharedStream // of our updates without a response

	reserved uint64        // Request IDs of this end that are used, or about to be
	limit    uint64        // of the peer: our Request IDs are smaller
	raised   chan struct{} // closed, and replaced, when we may use more

	received  uint64 // requests and updates of the peer
	announced uint64 // our MAX_REQUEST_ID
}

func newSharedControl(s *Session) *sharedControl {
	return &sharedControl{
		s: s, streams: make(map[uint64]*sharedStream), updates: make(map[uint64]*sharedStream),
		raised: make(chan struct{}), announced: 2 * requestWindow,
	}
}

// setup adds the fields of draft-16 to our SETUP, and removes options that draft-16 does not know.
func (c *sharedControl) setup(m *moqt.Setup) {
	m.Server, m.MaxRequestID, m.Unknown = c.s.cfg.Role == Server, c.announced, nil
}

// openControl opens the control stream of a client. A server accepts it among the streams that the client opens.
func (c *sharedControl) openControl() {
	if c.s.cfg.Role == Server {
		return
	}
	stream, err := c.s.conn.OpenStreamSync(c.s.ctx)
	if err != nil {
		c.s.failUnlessEnded(fmt.Errorf("open the control stream: %w", err))
		return
	}
	c.s.control.send(stream)
	in := newInbox(c.s, stream)
	c.run(in, func() error { return c.next(in) })
}

// run reads the control stream.
func (c *sharedControl) run(in *inbox, next func() error) {
	if err := c.s.control.read(in.stream.ID(), next); err != nil {
		c.s.failUnlessEnded(err)
	}
}

// serve takes a bidirectional stream of the peer: the control stream, or one with a SUBSCRIBE_NAMESPACE.
func (c *sharedControl) serve(stream transport.Stream) {
	in := newInbox(c.s, stream)
	m, err := in.first()
	switch m.(type) {
	case nil:
		c.s.responder.giveUp(stream, err)
	case *moqt.Setup:
		c.run(in, func() error {
			if m == nil {
				return c.next(in)
			}
			c.s.control.send(stream)
			first := m
			m = nil
			return c.s.control.receive(first)
		})
	case *moqt.SubscribeNamespace, *moqt.SubscribeTracks:
		if !c.s.streams.holdUntilReady() {
			stream.CancelRead(uint64(moqt.ResetExcessiveLoad))
			stream.CancelWrite(uint64(moqt.ResetExcessiveLoad))
			return
		}
		if err := c.count(*moqt.PartsOf(m).RequestID); err != nil {
			c.s.failUnlessEnded(err)
			return
		}
		c.s.responder.run(stream, in, m)
	default:
		c.s.failUnlessEnded(violation("%s opens a stream", m.Type()))
	}
}

// next reads and processes the next message of the control stream.
func (c *sharedControl) next(in *inbox) error {
	m, err := in.next()
	ref := in.reader.Reference()
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](err); ok {
		return c.malformed(ref, malformed)
	}
	if err != nil {
		return err
	}
	if _, ok := m.(*moqt.Setup); !ok && !c.s.control.isReady() {
		return violation("%s before SETUP", m.Type())
	}
	switch m := m.(type) {
	case *moqt.Setup, *moqt.Goaway:
		return c.s.control.receive(m)
	}
	c.s.qlog.Message(qlog.Parsed, in.stream.ID(), ref.RequestID, m)
	switch m := m.(type) {
	case *moqt.MaxRequestID:
		return c.raise(m.Max)
	case *moqt.RequestsBlocked: // more ids follow when requests have arrived
		return nil
	case *moqt.Unsubscribe, *moqt.FetchCancel, *moqt.NamespaceWithdrawn, *moqt.NamespaceRevoked:
		return c.cancelled(ref.RequestID, m)
	case *moqt.RequestUpdate:
		return c.receiveUpdate(ref.RequestID, m)
	case *moqt.SubscribeOK, *moqt.FetchOK, *moqt.RequestOK, *moqt.RequestError, *moqt.PublishDone:
		return c.receiveReply(ref.RequestID, m)
	case *moqt.Subscribe, *moqt.Publish, *moqt.Fetch, *moqt.TrackStatus, *moqt.PublishNamespace:
		return c.receiveRequest(ref.RequestID, m)
	}
	return violation("%s on the control stream", m.Type())
}

// accept takes the limit in the peer's SETUP.
func (c *sharedControl) accept(m *moqt.Setup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = m.MaxRequestID
	c.wakeLocked()
}

// raise takes a MAX_REQUEST_ID (draft-16 §9.5).
func (c *sharedControl) raise(limit uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit <= c.limit {
		return violation("MAX_REQUEST_ID %d after %d", limit, c.limit)
	}
	c.limit = limit
	c.wakeLocked()
	return nil
}

// wakeLocked wakes goroutines that wait for a Request ID. c.mu is held.
func (c *sharedControl) wakeLocked() {
	close(c.raised)
	c.raised = make(chan struct{})
}

// tryReserve reserves a Request ID of this end. If the peer allows no more, it returns a channel that is closed when
// the caller should try again.
func (c *sharedControl) tryReserve() (wait <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if 2*c.reserved+uint64(c.s.cfg.Role) >= c.limit {
		return c.raised
	}
	c.reserved++
	return nil
}

// release gives up a Request ID that was reserved and not used.
func (c *sharedControl) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved--
	c.wakeLocked()
}

// open returns a stream for a request of this end, once the peer allows one.
func (c *sharedControl) open(ctx context.Context, kind moqt.MessageType, wait bool) (requestStream, error) {
	for blocked := c.tryReserve(); blocked != nil; blocked = c.tryReserve() {
		if !wait {
			return nil, transport.ErrStreamLimit
		}
		select {
		case <-blocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.s.ctx.Done():
			return nil, context.Cause(c.s.ctx)
		}
	}
	if kind != moqt.MessageSubscribeNamespace && kind != moqt.MessageSubscribeTracks {
		return c.newStream(kind, false), nil
	}
	stream, err := c.s.requester.openStream(ctx)
	if err != nil {
		c.release()
		return nil, err
	}
	return stream, nil
}

// update calls send for an update of r. If the peer allows no more Request IDs, it returns a channel that
// is closed when the caller should try again.
func (c *sharedControl) update(r *Request, send func() error) (wait <-chan struct{}, err error) {
	if _, shared := r.out.(*sharedStream); !shared {
		return nil, errOneControlStream
	}
	if wait := c.tryReserve(); wait != nil {
		return wait, nil
	}
	if err := send(); err != nil {
		c.release()
		return nil, err
	}
	return nil, nil
}

// count counts a request or update of the peer, and raises the peer's limit in time.
func (c *sharedControl) count(id uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id >= c.announced {
		return closes(moqt.SessionTooManyRequests, "request id %d: must be below %d", id, c.announced)
	}
	c.received++
	if next := 2 * (c.received + requestWindow); next >= c.announced+requestWindow {
		c.announced = next
		return c.s.control.out.send(moqt.Reference{}, &moqt.MaxRequestID{Max: next}, false)
	}
	return nil
}

// receiveRequest serves a request of the peer. It enters the request before the next message is read, as later messages
// may depend on its tokens.
func (c *sharedControl) receiveRequest(id uint64, m moqt.Message) error {
	if err := c.count(id); err != nil {
		return err
	}
	p := &c.s.responder
	if id%2 != p.ids.parity || p.ids.isUsed(id) {
		return closes(moqt.SessionInvalidRequestID, "request id %d is not a new one of the peer", id)
	}
	if err := p.acceptRate.Wait(c.s.ctx); err != nil {
		return context.Cause(c.s.ctx)
	}
	t := c.newStream(m.Type(), true)
	c.enter(id, t)
	r := new(Request)
	r.init(c.s, t, m.Type(), true)
	refused, err := p.enter(r, m)
	if err != nil {
		return err
	}
	c.s.spawn(func() { p.runEntered(r, t, refused) })
	return nil
}

// malformed ends a request whose message makes its track malformed.
func (c *sharedControl) malformed(ref moqt.Reference, err error) error {
	if t := c.stream(ref.RequestID); t != nil {
		c.mu.Lock()
		c.forgetLocked(t)
		c.mu.Unlock()
		return t.end(err)
	}
	if c.s.requester.hasUsed(ref.RequestID) {
		return nil
	}
	if err := c.count(ref.RequestID); err != nil { // it was in a PUBLISH
		return err
	}
	if err := c.s.responder.ids.use(ref.RequestID); err != nil {
		return err
	}
	return c.s.control.out.send(ref, refuse(moqt.RequestMalformedTrack, "%v", err), false)
}

// receiveUpdate hands an update of the peer to its request. Tokens come first, in the order of the control stream, and
// are registered even if the request ended before the update arrived.
func (c *sharedControl) receiveUpdate(request uint64, m *moqt.RequestUpdate) error {
	if err := c.count(m.RequestID); err != nil {
		return err
	}
	t := c.stream(request)
	if t == nil && !c.known(request) {
		return violation("REQUEST_UPDATE of request %d, which was never made", request)
	}
	tokens, _, err := c.s.responder.tokens.resolve(m.Parameters.AuthorizationTokens, false)
	if err != nil {
		return err
	}
	if t != nil {
		m.Parameters.AuthorizationTokens = tokens // by value: the request resolves them to the same
		return t.push(m, nil)
	}
	if err := c.s.responder.ids.use(m.RequestID); err != nil {
		return err
	}
	return c.s.control.out.send(moqt.Reference{RequestID: m.RequestID},
		refuse(moqt.RequestDoesNotExist, "request %d is over, or cannot be updated", request), false)
}

// receiveReply hands a response, or PUBLISH_DONE, to its request.
func (c *sharedControl) receiveReply(id uint64, m moqt.Message) error {
	c.mu.Lock()
	t, isUpdate := c.updates[id]
	if isUpdate {
		delete(c.updates, id)
		t.updates = slices.DeleteFunc(t.updates, func(other uint64) bool { return other == id })
	} else {
		t = c.streams[id]
	}
	c.mu.Unlock()
	if t != nil {
		return t.receive(m, isUpdate)
	}
	if !c.known(id) {
		return violation("%s for request %d, which was never made", m.Type(), id)
	}
	return nil // the request ended before
}

// cancelled ends a request because the peer says so.
func (c *sharedControl) cancelled(id uint64, m moqt.Message) error {
	t := c.stream(id)
	switch {
	case t == nil && !c.known(id):
		return violation("%s for request %d, which was never made", m.Type(), id)
	case t == nil:
		return nil // it ended before
	case !t.ends(m):
		return violation("%s for request %d, which is another one", m.Type(), id)
	}
	c.mu.Lock()
	t.quiet = true
	c.forgetLocked(t)
	c.mu.Unlock()
	return t.end(&transport.StreamError{Code: uint64(moqt.ResetCancelled), Remote: true})
}

// known reports whether either end has made a request.
func (c *sharedControl) known(id uint64) bool {
	return c.s.requester.hasUsed(id) || c.s.responder.ids.isUsed(id)
}

func (c *sharedControl) stream(id uint64) *sharedStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

func (c *sharedControl) enter(id uint64, t *sharedStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.id, t.entered = id, true
	c.streams[id] = t
}

// forgetLocked removes a stream from the tables. c.mu is held.
func (c *sharedControl) forgetLocked(t *sharedStream) {
	if c.streams[t.id] == t {
		delete(c.streams, t.id)
	}
	for _, id := range t.updates {
		if c.updates[id] == t {
			delete(c.updates, id)
		}
	}
	t.updates = nil
	t.cancel()
}

func (c *sharedControl) newStream(kind moqt.MessageType, remote bool) *sharedStream {
	t := &sharedStream{c: c, kind: kind, remote: remote, read: make(chan struct{}), changed: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(c.s.ctx)
	return t
}
