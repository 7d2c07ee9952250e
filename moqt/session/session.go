package session

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// Session is one MoQ session (draft §3), for clients, servers and relays alike: either end may publish and subscribe.
// Make one with [New], and call [Session.Run]. All methods may be called on any goroutine. None of them waits for the
// peer, unless its comment says so.
type Session struct {
	conn    transport.Conn
	cfg     Config
	version moqt.Version
	log     *slog.Logger
	qlog    *qlog.Recorder // or nil

	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  taskGroup

	control   controlStreams
	shared    *sharedControl // of draft-16, or nil
	requester requester
	responder responder
	streams   dataStreams
	datagrams datagrams

	tolerated sync.Once // a mistake of the peer was logged

	mu    sync.Mutex // guards table, and fields of other types as their comments say
	table requestTable
}

// New makes a session on a new transport session, whose negotiated protocol must be a version of package moqt.
func New(conn transport.Conn, cfg Config) (*Session, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	version, ok := moqt.ParseALPN(conn.Protocol())
	if !ok {
		return nil, closes(moqt.SessionVersionNegotiation, "no version in common: %s", conn.Protocol())
	}
	cfg = cfg.withDefaults()
	s := &Session{
		conn:    conn,
		cfg:     cfg,
		version: version,
		qlog:    qlog.New(conn.Qlog()),
		log:     cfg.Logger.With("session", conn.RemoteAddr(), "role", cfg.Role),
		table:   newRequestTable(),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if version.HasOneControlStream() {
		s.shared = newSharedControl(s)
	}
	s.control.init(s)
	s.requester.init(s)
	s.responder.init(s)
	s.streams = dataStreams{s: s, held: make(semaphore, cfg.MaxHeldStreams)}
	s.datagrams.s, s.datagrams.receiving = s, make(chan struct{}, 1)
	return s, s.control.sendSetup()
}

// Run exchanges SETUP messages, serves the peer, and waits for the end of the session and of all goroutines that it
// started, handlers included. It returns nil if the session ended with NO_ERROR. When the context is done, it closes
// the session.
func (s *Session) Run(ctx context.Context) error {
	started := time.Now()
	s.log.Info("session started", "transport", s.conn.Kind(), "version", s.version)
	defer context.AfterFunc(ctx, func() { s.Close(moqt.SessionNoError, "") })()
	// Messages and data that arrived before the transport session ended are delivered first.
	defer context.AfterFunc(s.conn.Context(), func() { s.after(drainTime, s.failWithTransport) })()

	setupTimer := time.AfterFunc(setupTimeout, s.control.checkSetup)
	defer setupTimer.Stop()
	s.spawn(s.control.open)
	s.spawn(s.responder.accept)
	s.streams.arriving.Add(1)
	if !s.spawn(s.datagrams.receive) {
		s.streams.arriving.Done()
	}
	s.streams.accept() // here, because another goroutine would cost each session some kilobytes

	<-s.ctx.Done()
	s.tasks.wait()
	err := context.Cause(s.ctx)
	s.log.Info("session ended", "reason", err, "after", time.Since(started).Round(time.Millisecond))
	if isClean(err) {
		return nil
	}
	return err
}

// Close ends the session. Calls after the first have no effect. On WebTransport it waits for the peer's answer, a
// second at most.
func (s *Session) Close(code moqt.SessionErrorCode, reason string) {
	s.fail(&moqt.ProtocolError{Code: code, Reason: reason})
}

// Context is done when the session has ended. Its cause is then a *[moqt.ProtocolError] if this end closed the session,
// and a *[transport.SessionError] otherwise.
func (s *Session) Context() context.Context { return s.ctx }

// Ready returns a channel that is closed when the peer's SETUP has arrived. Requests may be sent earlier (draft §3.3).
func (s *Session) Ready() <-chan struct{} { return s.control.ready }

// Peer returns the contents of the peer's SETUP. It waits until the message has arrived or the session has ended.
func (s *Session) Peer(ctx context.Context) (Peer, error) {
	if err := s.control.awaitReady(ctx); err != nil {
		return Peer{}, err
	}
	return s.control.peer, nil
}

// Version returns the negotiated version.
func (s *Session) Version() moqt.Version { return s.version }

// OpenRequests returns the number of requests of either end that are open.
func (s *Session) OpenRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.table.requests)
}

// Goaway tells the peer that the session will end (draft §3.6, §10.4). The peer should move to a session at the URI, or
// at the current one if it is empty. Clients must leave it empty. New requests of the peer are refused from now on. The
// session is closed after the timeout; 0 leaves it open. GOAWAY can be sent once; after a GOAWAY without a timeout,
// another call only sets the timeout.
func (s *Session) Goaway(uri string, timeout time.Duration) error {
	if uri != "" && s.cfg.Role == Client {
		return errURIOfClient
	}
	return s.control.sendGoaway(uri, timeout)
}

// Subscribe asks for the objects of a track that are published from now on (draft §10.7). The Request ID of the message
// is filled in. Joining fetches may be sent at once. Subscribe waits only while the peer's stream limit is reached.
func (s *Session) Subscribe(ctx context.Context, m moqt.Subscribe, receiver Receiver) (*Subscription, error) {
	sub := newSubscription(new(Request), m.Track)
	sub.receiver, sub.parameters = receiver, m.Parameters
	close(sub.accept)
	err := s.requester.request(ctx, s.requester.waitForStream, &m, sub)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", m.Track, err)
	}
	return sub, nil
}

// Publish offers a track to the peer (draft §10.10). Request ID and Track Alias of the message are filled in. Objects
// may be sent at once, unless the message says Forward 0. Publish waits only while the peer's stream limit is reached.
func (s *Session) Publish(ctx context.Context, m moqt.Publish) (*Publication, error) {
	return s.requester.publish(ctx, s.requester.waitForStream, m)
}

// TryPublish is like Publish, but fails with [transport.ErrStreamLimit] instead of waiting for a stream. The caller
// then sends PUBLISH_BLOCKED: see [IncomingSubscribeTracks.Blocked].
func (s *Session) TryPublish(m moqt.Publish) (*Publication, error) {
	return s.requester.publish(s.ctx, s.requester.tryStream, m)
}

// Fetch asks for objects that were published already. The Request ID of the message is filled in; a joining fetch names
// its subscription by [Request.ID]. Fetch waits only while the peer's stream limit is reached.
func (s *Session) Fetch(ctx context.Context, m moqt.Fetch) (*Fetch, error) {
	f := &Fetch{Request: new(Request), request: m, arrived: make(chan struct{})}
	err := s.requester.request(ctx, s.requester.waitForStream, &m, f)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return f, nil
}

// TrackStatus asks for the largest object and the properties of a track (draft §10.14), and waits for the response.
// The Request ID of the message is filled in.
func (s *Session) TrackStatus(ctx context.Context, m moqt.TrackStatus) (*moqt.RequestOK, error) {
	t := &trackStatus{Request: new(Request)}
	err := s.requester.request(ctx, s.requester.waitForStream, &m, t)
	var ok *moqt.RequestOK
	if err == nil {
		ok, err = t.result(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", m.Track, err)
	}
	return ok, nil
}

// PublishNamespace offers the tracks of a namespace (draft §10.15). The Request ID of the message is filled in.
// PublishNamespace waits only while the peer's stream limit is reached.
func (s *Session) PublishNamespace(ctx context.Context, m moqt.PublishNamespace) (*PublishedNamespace, error) {
	p := &PublishedNamespace{Request: new(Request)}
	err := s.requester.request(ctx, s.requester.waitForStream, &m, p)
	if err != nil {
		return nil, fmt.Errorf("publish namespace %s: %w", m.Namespace, err)
	}
	return p, nil
}

// SubscribeNamespace asks for the namespaces with a prefix (draft §10.18). The Request ID of the message is filled in.
// notify is called for each namespace that appears or disappears, or whose HopPath or RouteCost changes. Calls do not
// overlap, and the next message of the peer waits until a call returns. When the request ends before the session does,
// all namespaces disappear. SubscribeNamespace waits only while the peer's stream limit is reached.
func (s *Session) SubscribeNamespace(
	ctx context.Context, m moqt.SubscribeNamespace, notify NotifyNamespace,
) (*NamespaceSubscription, error) {
	n := &NamespaceSubscription{
		Request: new(Request), notify: notify, prefix: m.Prefix, active: make(map[string]reportedNamespace),
	}
	err := s.requester.request(ctx, s.requester.waitForStream, &m, n)
	if err != nil {
		return nil, fmt.Errorf("subscribe to namespaces under %s: %w", m.Prefix, err)
	}
	return n, nil
}

// SubscribeTracks asks for PUBLISH requests for all tracks in namespaces with a prefix (draft §10.19). The Request ID
// of the message is filled in. blocked is called for each track that the peer cannot publish because it has no stream
// left; use SUBSCRIBE for such a track. The next message of the peer waits until the call returns. SubscribeTracks
// waits only while the peer's stream limit is reached.
func (s *Session) SubscribeTracks(
	ctx context.Context, m moqt.SubscribeTracks, blocked func(moqt.FullTrackName),
) (*TracksSubscription, error) {
	fills := m.Parameters.Fill != nil && !s.version.HasJoiningFetch()
	t := &TracksSubscription{Request: new(Request), blocked: blocked, prefix: m.Prefix, filled: fills}
	t.awaitFills(s, m.Prefix)
	err := s.requester.request(ctx, s.requester.waitForStream, &m, t)
	if err != nil {
		return nil, fmt.Errorf("subscribe to tracks under %s: %w", m.Prefix, err)
	}
	return t, nil
}

// fail ends the session because of err, if it has not ended yet.
func (s *Session) fail(err error) {
	if !s.tasks.close() {
		return
	}
	code, reason := closeCode(err)
	reason = strings.ToValidUTF8(reason[:min(len(reason), moqt.MaxReasonLen)], "")
	_ = s.conn.CloseWithError(uint64(code), reason) // fails only if the transport session has ended
	s.cancel(err)
}

// failWithTransport ends the session because the transport session has ended.
func (s *Session) failWithTransport() { s.fail(context.Cause(s.conn.Context())) }

// failUnlessEnded ends the session because of err, unless err is a consequence of its end.
func (s *Session) failUnlessEnded(err error) {
	if !isEnd(err) {
		s.fail(err)
	}
}

// spawn runs a task of the session. Once the session has ended, it does nothing and returns false.
func (s *Session) spawn(f func()) bool { return s.tasks.spawn(f) }

// after calls f after d, unless the session has ended.
func (s *Session) after(d time.Duration, f func()) {
	timer := time.AfterFunc(d, f)
	context.AfterFunc(s.ctx, func() { timer.Stop() })
}

// Tolerates reports whether the peer is known to make a mistake that the session tolerates. It logs its first true
// answer, so the caller must be about to act on it. It is false before the peer's SETUP.
func (s *Session) Tolerates(m Mistake) bool {
	if s.cfg.Strict || !isClosed(s.control.known) {
		return false
	}
	peer := s.control.peer.Implementation
	for _, t := range mistakes {
		if t.mistake != m || !strings.HasPrefix(peer, t.peer) || s.version < t.from || s.version > t.to {
			continue
		}
		s.tolerated.Do(func() {
			s.log.Info("tolerating a mistake of the peer", "implementation", peer, "version", s.version,
				"mistake", t.text, "issue", t.issue)
		})
		return true
	}
	return false
}

// source returns the messages that arrive on a stream.
func (s *Session) source(stream requestStream) messageSource {
	if shared, ok := stream.(*sharedStream); ok {
		return shared
	}
	return newInbox(s, stream.(transport.Stream))
}
