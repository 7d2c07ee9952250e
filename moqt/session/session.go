package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sluice/moqt"
	"sluice/transport"
)

// Session is one MoQ session (draft §3), for clients, servers and relays alike: either end may publish and subscribe.
// Make one with [New], and call [Session.Run]. All methods may be called on any goroutine; none of them waits for the
// peer, unless its comment says so.
type Session struct {
	conn    transport.Conn
	cfg     Config
	version moqt.Version
	log     *slog.Logger

	ctx    context.Context
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when the peer's SETUP was accepted; peer is valid then
	peer   Peer

	tasks taskGroup

	control outbox
	ids     requestIDs // the peer's
	rate    *rate.Limiter
	// acceptRate slows down peers that ignore that their requests are refused; they run into the stream limit then.
	acceptRate *rate.Limiter
	tokens     tokenCache  // the peer's
	ownTokens  tokenSender // ours
	held       semaphore   // data streams that wait for a message

	// mu guards all that follows, and the state of requests.
	mu            sync.Mutex
	nextID        uint64 // our next Request ID
	requests      map[uint64]*Request
	load          [loadClasses]int
	subscriptions map[string]*Subscription // Pending and Established, by track; those from a SUBSCRIBE of ours first
	offers        map[string]*Subscription // PUBLISH requests of the peer for which there is another subscription
	publications  map[string]*Publication  // Pending and Established, by track
	prefixes      map[*Request]moqt.Namespace
	fetches       map[uint64]*Fetch
	aliases       aliasTable
	datagrams     heldDatagrams
	nextAlias     uint64
	changed       chan struct{} // closed, and replaced, when something arrived that held data may wait for
	goawaySent    bool
	goawayTaken   bool // received on the control stream
	controlTaken  bool // the peer has opened its control stream
}

// maxRefusals is how many times RequestRate the session is willing to refuse.
const maxRefusals = 10

// New makes the session on a new transport session, whose negotiated protocol has to be a version of package moqt.
func New(conn transport.Conn, cfg Config) (*Session, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	version, ok := moqt.ParseALPN(conn.Protocol())
	if !ok {
		return nil, &moqt.ProtocolError{
			Code: moqt.SessionVersionNegotiation, Reason: "no version in common: " + conn.Protocol(),
		}
	}
	cfg = cfg.withDefaults()
	s := &Session{
		conn:          conn,
		cfg:           cfg,
		version:       version,
		log:           cfg.Logger.With("session", conn.RemoteAddr(), "role", cfg.Role),
		ready:         make(chan struct{}),
		ids:           requestIDs{parity: uint64(1 - cfg.Role)},
		rate:          rate.NewLimiter(rate.Limit(cfg.RequestRate), cfg.RequestBurst),
		acceptRate:    rate.NewLimiter(rate.Limit(maxRefusals*cfg.RequestRate), maxRefusals*cfg.RequestBurst),
		tokens:        tokenCache{limit: uint64(cfg.MaxAuthTokenCacheSize)},
		held:          make(semaphore, cfg.MaxHeldStreams),
		nextID:        uint64(cfg.Role),
		requests:      make(map[uint64]*Request),
		subscriptions: make(map[string]*Subscription),
		offers:        make(map[string]*Subscription),
		publications:  make(map[string]*Publication),
		prefixes:      make(map[*Request]moqt.Namespace),
		fetches:       make(map[uint64]*Fetch),
		changed:       make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.ownTokens.setup(cfg.Tokens)
	s.control.s, s.control.failed = s, s.controlFailed
	return s, s.sendSetup()
}

// Run exchanges SETUP messages, serves the peer, and waits for the end of the session and of everything that it
// started, handlers included. It returns nil if the session ended with NO_ERROR. When the context is done it closes
// the session.
func (s *Session) Run(ctx context.Context) error {
	started := time.Now()
	s.log.Info("session started", "transport", s.conn.Kind(), "version", s.version)
	defer context.AfterFunc(ctx, func() { s.Close(moqt.SessionNoError, "") })()
	defer context.AfterFunc(s.conn.Context(), func() { s.fail(context.Cause(s.conn.Context())) })()

	setupTimer := time.AfterFunc(s.cfg.Timeouts.Setup, s.checkSetup)
	defer setupTimer.Stop()
	s.spawn(s.openControl)
	s.spawn(s.acceptUniStreams)
	s.spawn(s.acceptStreams)
	s.spawn(s.receiveDatagrams)

	<-s.ctx.Done()
	s.tasks.wait()
	err := context.Cause(s.ctx)
	s.log.Info("session ended", "reason", err, "after", time.Since(started).Round(time.Millisecond))
	if isClean(err) {
		return nil
	}
	return err
}

// Close ends the session. Calls after the first have no effect.
func (s *Session) Close(code moqt.SessionErrorCode, reason string) {
	s.fail(&moqt.ProtocolError{Code: code, Reason: reason})
}

// Context is done when the session has ended. Its cause is then a *[moqt.ProtocolError] if this end closed it, and a
// *[transport.SessionError] otherwise.
func (s *Session) Context() context.Context { return s.ctx }

// Ready is closed when the peer's SETUP has arrived. Requests may be sent before (draft §3.3).
func (s *Session) Ready() <-chan struct{} { return s.ready }

// Peer is what the peer's SETUP says. It waits for that, or for the end of the session.
func (s *Session) Peer(ctx context.Context) (Peer, error) {
	if err := s.awaitReady(ctx); err != nil {
		return Peer{}, err
	}
	return s.peer, nil
}

// Conn is the transport session. Use it to send data, and nothing else.
func (s *Session) Conn() transport.Conn { return s.conn }

// Version is the negotiated version.
func (s *Session) Version() moqt.Version { return s.version }

func (s *Session) awaitReady(ctx context.Context) error {
	if s.isReady() {
		return nil
	}
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// fail ends the session because of err, if it has not ended yet.
func (s *Session) fail(err error) {
	if !s.tasks.close() {
		return
	}
	code, reason := closeCode(err)
	reason = strings.ToValidUTF8(reason[:min(len(reason), moqt.MaxReasonLen)], "")
	_ = s.conn.CloseWithError(uint64(code), reason) // it can only have ended already
	s.cancel(err)
}

// failUnlessEnded ends the session because of an error that is not a consequence of its end.
func (s *Session) failUnlessEnded(err error) {
	if _, ended := errors.AsType[*transport.SessionError](err); !ended {
		s.fail(err)
	}
}

// spawn runs a task of the session. It reports false, and does nothing, once the session has ended.
func (s *Session) spawn(f func()) bool { return s.tasks.spawn(f) }

// notify wakes up all that wait for s.changed, with mu held.
func (s *Session) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
