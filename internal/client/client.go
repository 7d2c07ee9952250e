// Package client keeps a MoQ session with a relay: it connects, connects again when a session is lost, and moves to
// another session when the relay asks for it.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// Config is the configuration of [Run]. URL is required; the zero value of all else is the default.
type Config struct {
	// URL of the relay: moqt://host:port/path for raw QUIC, https://host:port/path for WebTransport.
	URL string
	// Transport is how to reach and trust it. Protocols are filled in.
	Transport transport.ClientConfig
	// Tokens authorize the session and each request.
	Tokens []moqt.Token
	// Patience is how long to try to connect again after a session was lost. Default: [DefaultPatience]. Negative: do
	// not try.
	Patience time.Duration
	Logger   *slog.Logger // default: slog.Default()

	// Dial opens a transport session. Default: [transport.Dial].
	Dial func(ctx context.Context, url string, cfg transport.ClientConfig) (transport.Conn, error)
}

// DefaultPatience is enough for a relay to be restarted.
const DefaultPatience = 30 * time.Second

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	if c.Dial == nil {
		c.Dial = transport.Dial
	}
	return c
}

// Endpoint is what uses a session.
type Endpoint interface {
	session.Handler
	// Serve uses the session until there is no more to do, and returns nil, or until the context is done, because the
	// session has ended or another one takes over. Other errors end Run.
	Serve(context.Context) error
}

// Link is a session with a relay. Its Session is valid when Serve is called.
type Link struct {
	*session.Session
	URL string // where it leads

	established chan struct{}
	moved       chan moqt.Goaway
	served      chan error
	stop        context.CancelFunc // of Serve
	ended       chan struct{}
}

// Established says that the session does what it is for. It then replaces the one before it, if there is one.
func (l *Link) Established() {
	select {
	case l.established <- struct{}{}:
	default:
	}
}

// ConnectError says that no session with the relay could be established.
type ConnectError struct {
	URL string
	Err error
}

func (e *ConnectError) Error() string { return fmt.Sprintf("no session with the relay: %v", e.Err) }

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// How fast connecting again is tried. A relay that restarts is back in less than a second, and its clients should not
// all come at the same moment.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// retryRefused is how long to wait after a refusal that is for now only.
const retryRefused = time.Second

// moveTime is how long a session may live on after another one took over, unless GOAWAY says something shorter.
const moveTime = 10 * time.Second

// grace is how long Serve may go on when Run's context is done, to end what it does in good order.
const grace = 5 * time.Second

// Run connects to the relay and serves the session, and all that replace it, with an endpoint each, until an endpoint
// is done or the context is. The first connection has to succeed at once.
func Run(ctx context.Context, cfg Config, endpoint func(*Link) Endpoint) error {
	r := &runner{cfg: cfg.withDefaults(), endpoint: endpoint}
	defer r.closeAll()
	l, err := r.connect(ctx, cfg.URL)
	if err != nil {
		return err
	}
	for {
		l, err = r.follow(ctx, l)
		if l == nil {
			return err
		}
	}
}

// runner is a call of Run.
type runner struct {
	cfg      Config
	endpoint func(*Link) Endpoint
	links    []*Link // that may have to be closed
	sessions int     // that were established so far
	refusals int     // since something was accepted
}

// connect establishes a session and starts to serve it.
func (r *runner) connect(ctx context.Context, url string) (*Link, error) {
	target, err := transport.ParseURL(url)
	if err != nil {
		return nil, &ConnectError{url, err}
	}
	cfg := r.cfg.Transport
	cfg.Protocols = moqt.ALPNs()
	conn, err := r.cfg.Dial(ctx, url, cfg)
	if err != nil {
		return nil, &ConnectError{url, err}
	}
	l := &Link{
		URL: url, established: make(chan struct{}, 1), moved: make(chan moqt.Goaway, 1), served: make(chan error, 1),
		ended: make(chan struct{}),
	}
	e := r.endpoint(l)
	l.Session, err = session.New(conn, session.Config{
		Handler: mover{e, l}, Authority: target.Authority, Path: target.Path, Tokens: r.cfg.Tokens,
		Logger: r.cfg.Logger,
	})
	if err != nil {
		return nil, &ConnectError{url, errors.Join(err, conn.CloseWithError(uint64(moqt.SessionInternalError), ""))}
	}
	go func() {
		defer close(l.ended)
		_ = l.Run(context.Background()) // its end is seen in its context
	}()
	if _, err := l.Peer(ctx); err != nil {
		l.close()
		return nil, &ConnectError{url, fmt.Errorf("%s: %w", url, err)}
	}
	r.sessions++
	r.links = append(slices.DeleteFunc(r.links, (*Link).hasEnded), l)
	serving, stop := context.WithCancel(l.Context())
	l.stop = stop
	go func() { l.served <- e.Serve(serving) }()
	return l, nil
}

// mover notices when the relay wants the session to move.
type mover struct {
	session.Handler
	link *Link
}

func (m mover) HandleGoaway(_ *session.Session, g moqt.Goaway) { m.link.moved <- g }

// follow waits until a session is over, and returns the one that takes its place. nil: there is none.
func (r *runner) follow(ctx context.Context, l *Link) (*Link, error) {
	select {
	case err := <-l.served:
		return r.served(ctx, l, err)
	case g := <-l.moved:
		return r.move(ctx, l, g)
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-l.served:
		l.served <- err
		return nil, err
	case <-timer.C:
		return nil, context.Cause(ctx)
	}
}

// served decides what follows when a session is no longer used.
func (r *runner) served(ctx context.Context, l *Link, err error) (*Link, error) {
	lost := context.Cause(l.Context())
	l.served <- err
	l.close()
	refused, isRefused := errors.AsType[*moqt.RequestError](err)
	switch {
	case isRefused && r.mayRetry(refused):
		if !sleep(ctx, retryRefused) {
			return nil, context.Cause(ctx)
		}
		lost = err
	case err == nil || lost == nil || isRefused:
		return nil, err
	case fatal(lost) || r.cfg.Patience < 0:
		return nil, &ConnectError{l.URL, fmt.Errorf("%s: %w", l.URL, lost)}
	}
	if !isRefused {
		r.refusals = 0
	}
	r.cfg.Logger.Warn("session lost, connecting again", "relay", l.URL, "error", lost)
	return r.reconnect(ctx, l.URL)
}

// mayRetry reports whether a refusal is for now only, of a relay that has accepted the same before, and patience is not
// over.
func (r *runner) mayRetry(e *moqt.RequestError) bool {
	if r.sessions == 1 || e.RetryInterval == 0 && e.Code != moqt.RequestGoingAway {
		return false
	}
	r.refusals++
	return time.Duration(r.refusals)*retryRefused <= r.cfg.Patience
}

// fatal reports whether the same would happen again.
func fatal(err error) bool {
	e, ok := errors.AsType[*transport.SessionError](err)
	if !ok || e.Cause != nil {
		return false
	}
	switch moqt.SessionErrorCode(e.Code) {
	case moqt.SessionNoError, moqt.SessionInternalError, moqt.SessionGoawayTimeout, moqt.SessionControlMessageTimeout,
		moqt.SessionDataStreamTimeout:
		return false
	}
	return true
}

// reconnect tries to connect until the patience is over.
func (r *runner) reconnect(ctx context.Context, url string) (*Link, error) {
	deadline := time.Now().Add(r.cfg.Patience)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		l, err := r.connect(ctx, url)
		if err == nil {
			r.cfg.Logger.Info("connected again", "relay", url)
			return l, nil
		}
		if fatal(err) || ctx.Err() != nil || time.Now().Add(wait).After(deadline) {
			return nil, err
		}
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return nil, context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// move goes to another session when the relay has sent GOAWAY (draft §3.6). The old one is used until the new one is
// established.
func (r *runner) move(ctx context.Context, l *Link, g moqt.Goaway) (*Link, error) {
	url := cmp.Or(g.NewSessionURI, l.URL)
	patience := moveTime
	if g.Timeout > 0 {
		patience = min(patience, moqt.Milliseconds(g.Timeout))
	}
	r.cfg.Logger.Info("the relay is going away, moving", "to", url)
	next, err := r.replace(ctx, l, url)
	if next == nil {
		return nil, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-next.established:
	case err := <-next.served:
		next.served <- err
	case err := <-l.served:
		l.served <- err
		if err == nil { // all was done on the old session
			return nil, nil
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	l.stop()
	go l.retire(patience)
	return next, nil
}

// replace connects to a URL, unless all is done on the old session before that: then it returns nil.
func (r *runner) replace(ctx context.Context, old *Link, url string) (*Link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		link *Link
		err  error
	}
	connected := make(chan result, 1)
	go func() {
		l, err := r.reconnect(ctx, url)
		connected <- result{l, err}
	}()
	select {
	case c := <-connected:
		return c.link, c.err
	case err := <-old.served:
		old.served <- err
		if err == nil {
			cancel()
			<-connected
			return nil, nil
		}
	}
	c := <-connected
	return c.link, c.err
}

// retire ends a session that is not needed any more: once it is not served, or after a time.
func (l *Link) retire(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-l.served:
		l.served <- err
	case <-timer.C:
	}
	l.close()
}

// close ends the session and waits for the end of all that uses it.
func (l *Link) close() {
	l.Close(moqt.SessionNoError, "")
	<-l.ended
	if l.stop != nil {
		l.stop()
		err := <-l.served
		l.served <- err
	}
}

// hasEnded reports whether the session has ended, and all that used it.
func (l *Link) hasEnded() bool {
	select {
	case <-l.ended:
		return len(l.served) > 0
	default:
		return false
	}
}

// closeAll ends all sessions.
func (r *runner) closeAll() {
	for _, l := range r.links {
		l.close()
	}
}
