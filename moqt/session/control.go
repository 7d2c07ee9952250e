package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// Peer holds the contents of the peer's SETUP.
type Peer struct {
	// Implementation is its MOQT_IMPLEMENTATION. Do not trust it.
	Implementation string
	// Authority and Path name the resource that a client connects to, from SETUP on raw QUIC and from the CONNECT
	// request on WebTransport. They are well-formed; the application decides whether it serves them.
	Authority, Path string
	// Tokens authorize the session. They all have a value.
	Tokens []moqt.Token
	// Hops says which messages have HOP_PATH, as both ends have agreed. Unless it is NoHops, HopID is the peer's (0 if
	// the peer keeps it to itself), and Cost is the peer's price for a subscription.
	Hops        moqt.Hops
	HopID, Cost uint64
	// MaxFilterRanges is how many ranges the Range Filters of a request may have, and MaxRequestUpdates how many
	// updates of a request may be without a response; 0 is no limit. The session keeps both.
	MaxFilterRanges, MaxRequestUpdates uint64
	// Renditions is whether the peer chooses among subscriptions whose SUBSCRIBE has RENDITION.
	Renditions bool
}

// agreeOnHops fills in the hop options of the peer's SETUP, if this end has a Hop ID.
func (p *Peer) agreeOnHops(own uint64, m *moqt.Setup) {
	id := cmp.Or(m.HopID, m.RelayHops)
	if own == 0 || id == nil {
		return
	}
	p.HopID, p.Hops, p.Cost = *id, moqt.HopsOfNamespaces, 1
	if m.RequestHops {
		p.Hops = moqt.HopsOfRequests
	}
	if m.RelayCost != nil {
		p.Cost = *m.RelayCost
	}
}

// controlStreams are the control streams of both ends (draft §3.3), with SETUP and GOAWAY.
type controlStreams struct {
	s     *Session
	out   outbox
	in    int64         // the peer's stream
	known chan struct{} // closed when the peer's SETUP has arrived
	ready chan struct{} // closed when the application has accepted it
	peer  Peer          // valid once known is closed

	// Guarded by s.mu.
	opened      bool // by the peer
	goawaySent  bool
	goawayEnds  bool // our GOAWAY has a timeout
	goawayTaken bool
}

func (c *controlStreams) init(s *Session) {
	c.s, c.known, c.ready = s, make(chan struct{}), make(chan struct{})
	c.out.s, c.out.failed = s, c.sendFailed
}

func (c *controlStreams) isReady() bool { return isClosed(c.ready) }

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// awaitReady waits for the peer's SETUP.
func (c *controlStreams) awaitReady(ctx context.Context) error { return c.await(ctx, c.ready) }

func (c *controlStreams) await(ctx context.Context, ch chan struct{}) error {
	if isClosed(ch) {
		return nil
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.s.ctx.Done():
		return context.Cause(c.s.ctx)
	}
}

// checkSetup ends a session whose peer has not sent SETUP in time.
func (c *controlStreams) checkSetup() {
	if !c.isReady() {
		c.s.fail(closes(moqt.SessionControlMessageTimeout, "no SETUP"))
	}
}

// sendSetup queues our SETUP. It returns an error if the peer would close the session over it.
func (c *controlStreams) sendSetup() error {
	m := c.setup()
	if err := c.out.send(moqt.Reference{}, m, false); err != nil {
		return err
	}
	peer := moqt.Context{
		Stream:       moqt.MessageSetup,
		Server:       c.s.cfg.Role == Client,
		WebTransport: c.s.conn.Kind() == transport.WebTransport,
	}
	return peer.Check(c.s.version, m)
}

// setup returns our SETUP.
func (c *controlStreams) setup() *moqt.Setup {
	cfg := &c.s.cfg
	m := &moqt.Setup{
		AuthorizationTokens:   cfg.Tokens,
		MaxAuthTokenCacheSize: uint64(cfg.MaxAuthTokenCacheSize),
		MaxFilterRanges:       uint64(cfg.MaxFilterRanges),
		MaxRequestUpdates:     maxUnansweredUpdates,
		Unknown:               []moqt.KeyValuePair{greaseOption()},
	}
	if cfg.Implementation != "-" {
		m.Implementation = cfg.Implementation
	}
	c.setHops(m)
	m.Renditions = cfg.Renditions
	if c.s.shared != nil {
		c.s.shared.setup(m)
	}
	if cfg.Role == Client && c.s.conn.Kind() == transport.RawQUIC {
		m.Path = &cfg.Path
		if cfg.Authority != "" {
			m.Authority = &cfg.Authority
		}
	}
	return m
}

// greaseOption returns an option that peers must ignore (draft §14).
func greaseOption() moqt.KeyValuePair {
	typ := moqt.Grease(rand.Uint64())
	if typ%2 == 0 {
		return moqt.KeyValuePair{Type: typ, Value: rand.Uint64() >> 1}
	}
	return moqt.KeyValuePair{Type: typ, Bytes: []byte("grease")}
}

// open opens our control stream. SETUP is queued already.
func (c *controlStreams) open() {
	if c.s.shared != nil {
		c.s.shared.openControl()
		return
	}
	stream, err := c.s.conn.OpenUniStreamSync(c.s.ctx)
	if err != nil {
		c.s.failUnlessEnded(fmt.Errorf("open the control stream: %w", err))
		return
	}
	c.s.qlog.Control(qlog.Created, stream.ID())
	c.send(stream)
}

// send sends our messages on a stream.
func (c *controlStreams) send(stream transport.SendStream) {
	c.out.open(stream)
	context.AfterFunc(stream.Context(), func() {
		// On WebTransport, streams end before their session does, and Write waits for that. The deadline of an earlier
		// message, which has passed, would make it look as if the peer did not read.
		_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout)) // if this fails, writing fails too
		_, err := stream.Write(nil)                               // returns why the stream has ended
		c.sendFailed(err)
	})
}

// sendFailed is called when the peer does not read our control stream.
func (c *controlStreams) sendFailed(err error) {
	switch {
	case isEnd(err):
	case errors.Is(err, errStalled), errors.Is(err, os.ErrDeadlineExceeded):
		c.s.fail(closes(moqt.SessionControlMessageTimeout, "the control stream is not read"))
	default:
		c.failLater(violation("the control stream is refused"))
	}
}

// failLater ends the session after drainTime. Some clients close their control streams as soon as they have
// published everything, while their last objects are still on their way.
func (c *controlStreams) failLater(err error) {
	c.s.after(drainTime, func() { c.s.fail(err) })
}

// run reads the peer's control stream, until the stream or the session ends.
func (c *controlStreams) run(h *headerReader) error {
	in := newInbox(c.s, h.stream, h.b...)
	return c.read(h.stream.ID(), func() error {
		m, err := in.next()
		if err != nil {
			return err
		}
		return c.receive(m)
	})
}

// read calls next, which reads and processes a message of the peer's control stream, until the stream or the session
// ends.
func (c *controlStreams) read(stream int64, next func() error) error {
	c.s.mu.Lock()
	second := c.opened
	c.opened = true
	c.s.mu.Unlock()
	if second {
		return violation("second control stream")
	}
	c.in = stream
	for {
		err := next()
		_, reset := errors.AsType[*transport.StreamError](err)
		switch {
		case errors.Is(err, io.EOF):
			c.failLater(violation("the control stream was closed"))
			return nil
		case reset:
			c.failLater(violation("the control stream was reset"))
			return nil
		case err != nil:
			return err
		}
	}
}

func (c *controlStreams) receive(m moqt.Message) error {
	c.s.log.Debug("receive", "message", m.Type())
	c.s.qlog.Message(qlog.Parsed, c.in, 0, m)
	where := moqt.Context{
		Stream:       moqt.MessageSetup,
		Server:       c.s.cfg.Role == Server,
		WebTransport: c.s.conn.Kind() == transport.WebTransport,
	}
	if err := where.Check(c.s.version, m); err != nil {
		return err
	}
	setup, isSetup := m.(*moqt.Setup)
	switch {
	case isSetup == c.isReady(), isSetup && setup.Server != (c.s.shared != nil && c.s.cfg.Role == Client):
		return violation("%s out of order on the control stream", m.Type())
	case isSetup:
		return c.acceptSetup(setup)
	}
	goaway, ok := m.(*moqt.Goaway)
	if !ok {
		return violation("unexpected %s on the control stream", m.Type())
	}
	return c.receiveGoaway(goaway)
}

// acceptSetup checks the peer's SETUP, and releases everything that waits for it.
func (c *controlStreams) acceptSetup(m *moqt.Setup) error {
	s := c.s
	tokens, repeated, err := s.responder.tokens.resolve(m.AuthorizationTokens, true)
	switch {
	case err != nil:
		return err
	case repeated:
		return closes(moqt.SessionMalformedAuthToken, "an authorization token is repeated")
	}
	c.peer = Peer{
		Implementation: m.Implementation,
		Authority:      s.conn.Authority(),
		Path:           s.conn.Path(),
		Tokens:         tokens,

		MaxFilterRanges:   m.MaxFilterRanges,
		MaxRequestUpdates: m.MaxRequestUpdates,
		Renditions:        m.Renditions,
	}
	if m.Authority != nil {
		c.peer.Authority = *m.Authority
	}
	if m.Path != nil {
		c.peer.Path = *m.Path
	}
	c.peer.agreeOnHops(s.cfg.HopID, m)
	if s.shared != nil {
		s.shared.accept(m)
	}
	close(c.known)
	if err := s.cfg.Handler.HandleSetup(s, c.peer); err != nil {
		return unauthorized(err)
	}
	s.log.Debug("setup", "implementation", m.Implementation, "authority", c.peer.Authority,
		"path", transport.WithoutQuery(c.peer.Path))
	close(c.ready)
	return nil
}

// peerUpdates returns how many updates without a response the peer takes, as far as is known; 0 is no limit.
func (c *controlStreams) peerUpdates() uint64 {
	if !isClosed(c.known) {
		return 0
	}
	return c.peer.MaxRequestUpdates
}

// unauthorized turns an error that has no code of its own into UNAUTHORIZED.
func unauthorized(err error) error {
	if _, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		return err
	}
	return &moqt.ProtocolError{Code: moqt.SessionUnauthorized, Reason: err.Error()}
}

func (c *controlStreams) receiveGoaway(m *moqt.Goaway) error {
	c.s.mu.Lock()
	second := c.goawayTaken
	c.goawayTaken = true
	c.s.mu.Unlock()
	if second {
		return violation("second GOAWAY on the control stream")
	}
	c.s.spawn(func() { c.s.cfg.Handler.HandleGoaway(c.s, *m) })
	return nil
}

var (
	errURIOfClient = errors.New("only a server may send a URI in GOAWAY (draft §10.4)")
	errGoawayTwice = errors.New("GOAWAY has already been sent")
)

func (c *controlStreams) sendGoaway(uri string, timeout time.Duration) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.goawaySent && (timeout == 0 || c.goawayEnds) {
		return errGoawayTwice
	}
	if !c.goawaySent {
		id := c.s.responder.ids.next()
		m := &moqt.Goaway{NewSessionURI: uri, Timeout: milliseconds(timeout), RequestID: &id}
		if err := c.out.send(moqt.Reference{}, m, false); err != nil {
			return err
		}
		c.goawaySent = true
	}
	if timeout > 0 {
		c.goawayEnds = true
		c.s.after(timeout, c.goawayTimedOut)
	}
	return nil
}

// goawayTimedOut closes the session after the timeout of our GOAWAY.
func (c *controlStreams) goawayTimedOut() {
	if c.s.OpenRequests() == 0 {
		c.s.Close(moqt.SessionNoError, "")
		return
	}
	c.s.Close(moqt.SessionGoawayTimeout, "requests are open after the timeout of GOAWAY")
}

// setHops declares the Hop ID of this end, in the options of all versions of draft-lcurley-moq-cluster.
func (c *controlStreams) setHops(m *moqt.Setup) {
	if id := c.s.cfg.HopID; id != 0 {
		m.HopID, m.RelayHops, m.RequestHops = &id, &id, true
	}
}

// awaitHops waits until the ends have agreed on hops.
func (c *controlStreams) awaitHops(ctx context.Context) error {
	if c.s.cfg.HopID == 0 {
		return nil
	}
	return c.await(ctx, c.known)
}

// hops returns the agreement of both ends. It is NoHops before the peer's SETUP has arrived; a session with a Hop ID
// sends no request before that.
func (c *controlStreams) hops() moqt.Hops {
	if !isClosed(c.known) {
		return moqt.NoHops
	}
	return c.peer.Hops
}

// addHop adds this end to the path of a message that it is about to send, or removes the path if the peer takes none in
// this type of message. It fails with ErrLoop.
func (c *controlStreams) addHop(typ moqt.MessageType, p *moqt.Parameters) error {
	needed := moqt.HopsOfRequests
	if typ == moqt.MessagePublishNamespace || typ == moqt.MessageNamespace {
		needed = moqt.HopsOfNamespaces
	}
	if c.hops() < needed {
		p.HopPath, p.RouteCost = nil, nil
		return nil
	}
	if p.HopPath.Has(c.peer.HopID) {
		return fmt.Errorf("send %s to the relay that it has come through: %w", typ, ErrLoop)
	}
	path, err := p.HopPath.Through(c.s.cfg.HopID)
	if err != nil {
		return fmt.Errorf("send %s: %v: %w", typ, err, ErrLoop)
	}
	p.HopPath = path
	return nil
}

// cameBack returns the refusal of a request or update that has come through this end before.
func (c *controlStreams) cameBack(kind moqt.MessageType, p *moqt.Parameters) *moqt.RequestError {
	switch {
	case !p.HopPath.Has(c.s.cfg.HopID):
		return nil
	case kind == moqt.MessagePublish || kind == moqt.MessagePublishNamespace:
		return refuse(moqt.RequestUninterested, "it comes from here: it has come through this relay before")
	}
	return refuse(moqt.RequestDoesNotExist, "nobody in this circle of relays has it: the request has come back")
}

// milliseconds rounds a time up to the milliseconds that messages carry.
func milliseconds(d time.Duration) uint64 {
	return uint64(min(max(d, 0), math.MaxInt64-time.Millisecond)+time.Millisecond-1) / uint64(time.Millisecond)
}

// ErrLoop reports that a message must not be sent, because it has come through the peer, or through too many others.
var ErrLoop = errors.New("it would go round in a circle of relays")
