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

// SessionConfig is the configuration of [Run]. URL is required. The zero value of any other field is its default.
type SessionConfig struct {
	// URL of the relay: moqt://host:port/path for raw QUIC, https://host:port/path for WebTransport.
	URL string
	// Transport is how to reach and trust the relay. Run sets Protocols.
	Transport transport.ClientConfig
	// Tokens authorize the session and each request.
	Tokens []moqt.Token
	// ReconnectTimeout is how long to try to connect again after a session has ended by an error. Default:
	// [DefaultReconnectTimeout]. Negative: Run does not try.
	ReconnectTimeout time.Duration
	Logger           *slog.Logger // default: slog.Default()

	// Dial opens a transport session. Default: [transport.Dial].
	Dial func(ctx context.Context, url string, cfg transport.ClientConfig) (transport.Conn, error)
}

// DefaultReconnectTimeout is enough for a relay to be restarted.
const DefaultReconnectTimeout = 30 * time.Second

// withDefaults sets the defaults.
func (c SessionConfig) withDefaults() SessionConfig {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.ReconnectTimeout = cmp.Or(c.ReconnectTimeout, DefaultReconnectTimeout)
	if c.Dial == nil {
		c.Dial = transport.Dial
	}
	return c
}

// Endpoint is the user of one session.
type Endpoint interface {
	session.Handler
	// Serve uses the session. It returns nil when everything is done. It returns when the context is done, because the
	// session has ended or another one replaces it. Any other error ends Run.
	Serve(context.Context) error
}

// ConnectError is the error of a session that could not be established, or re-established.
type ConnectError struct {
	URL string
	Err error
}

func (e *ConnectError) Error() string { return fmt.Sprintf("no session with the relay: %v", e.Err) }

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// Intervals between attempts to connect again, which double and vary at random: a relay restarts in less than a second,
// and its clients should not all connect at the same moment.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// retryRefused is how long to wait after a refusal that the relay calls temporary.
const retryRefused = time.Second

// moveTime is how long a session is kept after another one has replaced it, unless GOAWAY has a shorter timeout.
const moveTime = 10 * time.Second

// shutdownTimeout is how long Serve may take to return when Run's context is done.
const shutdownTimeout = 5 * time.Second

// Run connects to the relay and serves the session, and then each session that replaces it, with an Endpoint each. It
// returns when an Endpoint or the context is done. It does not repeat the first attempt to connect.
func Run(ctx context.Context, cfg SessionConfig, endpoint func(*Link) Endpoint) error {
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
	cfg      SessionConfig
	endpoint func(*Link) Endpoint
	links    []*Link // sessions that may not have ended
	sessions int     // number of sessions established so far
	refusals int     // since the latest session that was not refused

	// Of the sessions in a row that have ended soon after they began: how long to wait after the next one, and how long
	// Run has waited.
	wait, waited time.Duration
}

// connect establishes a session and starts to serve it.
func (r *runner) connect(ctx context.Context, url string) (*Link, error) {
	target, err := transport.ParseURL(url)
	if err != nil {
		return nil, &ConnectError{url, err}
	}
	cfg := r.cfg.Transport
	if len(cfg.Protocols) == 0 {
		cfg.Protocols = moqt.ALPNs()
	}
	conn, err := r.cfg.Dial(ctx, url, cfg)
	if err != nil {
		return nil, &ConnectError{url, err}
	}
	l := &Link{
		URL: url, since: time.Now(), established: make(chan struct{}, 1), moved: make(chan moqt.Goaway, 1),
		served: make(chan error, 1), ended: make(chan struct{}),
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
		_ = l.Run(context.Background()) // the session's context has its error
	}()
	if _, err := l.Peer(ctx); err != nil {
		l.close()
		return nil, &ConnectError{url, fmt.Errorf("%s: %w", transport.WithoutQuery(url), err)}
	}
	r.sessions++
	r.links = append(slices.DeleteFunc(r.links, (*Link).hasEnded), l)
	serving, stop := context.WithCancel(l.Context())
	l.stop = stop
	go func() { l.served <- e.Serve(serving) }()
	return l, nil
}

// mover takes GOAWAY for the Link, and passes everything else to the Endpoint.
type mover struct {
	session.Handler
	link *Link
}

func (m mover) HandleGoaway(_ *session.Session, g moqt.Goaway) { m.link.moved <- g }

// follow waits until a session is no longer used, and returns the session that replaces it, or nil.
func (r *runner) follow(ctx context.Context, l *Link) (*Link, error) {
	select {
	case err := <-l.served:
		return r.served(ctx, l, err)
	case g := <-l.moved:
		return r.move(ctx, l, g)
	case <-ctx.Done():
	}
	timer := time.NewTimer(shutdownTimeout)
	defer timer.Stop()
	select {
	case err := <-l.served:
		l.served <- err
		return nil, err
	case <-timer.C:
		return nil, context.Cause(ctx)
	}
}

// served returns the session that replaces one whose Serve has returned, or nil.
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
	case fatal(lost) || r.cfg.ReconnectTimeout < 0:
		return nil, &ConnectError{l.URL, fmt.Errorf("%s: %w", l.Name(), lost)}
	}
	r.cfg.Logger.Warn("session lost, connecting again", "relay", l.Name(), "error", lost)
	if !isRefused {
		r.refusals = 0
		switch inTime := r.pause(ctx, l); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !inTime:
			return nil, &ConnectError{l.URL, fmt.Errorf("%s: %w", l.Name(), lost)}
		}
	}
	return r.reconnect(ctx, l.URL)
}

// pause waits if the session was not the first one that ended soon after it began, longer each time: it counts like an
// attempt to connect that has failed. It reports whether there is time left to try again.
func (r *runner) pause(ctx context.Context, l *Link) bool {
	if time.Since(l.since) >= lastRetry {
		r.wait, r.waited = 0, 0
	}
	wait := r.wait
	r.wait = max(firstRetry, min(2*wait, lastRetry))
	r.waited += wait
	return r.waited <= r.cfg.ReconnectTimeout && sleep(ctx, wait/2+rand.N(wait+1))
}

// mayRetry reports whether a refusal is temporary, from a relay that has accepted the same before, and whether there is
// time left to try again.
func (r *runner) mayRetry(e *moqt.RequestError) bool {
	if r.sessions == 1 || e.RetryInterval == 0 && e.Code != moqt.RequestGoingAway {
		return false
	}
	r.refusals++
	return time.Duration(r.refusals)*retryRefused <= r.cfg.ReconnectTimeout
}

// fatal reports whether another attempt would end with the same error.
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

// reconnect tries to connect until ReconnectTimeout has passed.
func (r *runner) reconnect(ctx context.Context, url string) (*Link, error) {
	deadline := time.Now().Add(r.cfg.ReconnectTimeout)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		l, err := r.connect(ctx, url)
		if err == nil {
			r.cfg.Logger.Info("connected again", "relay", l.Name())
			return l, nil
		}
		pause := wait/2 + rand.N(wait)
		if fatal(err) || ctx.Err() != nil || time.Now().Add(pause).After(deadline) {
			return nil, err
		}
		if !sleep(ctx, pause) {
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

// move replaces a session after GOAWAY (draft §3.6). The old session is used until the new one is established.
func (r *runner) move(ctx context.Context, l *Link, g moqt.Goaway) (*Link, error) {
	url := cmp.Or(g.NewSessionURI, l.URL)
	timeout := moveTime
	if g.Timeout > 0 {
		timeout = min(timeout, moqt.Milliseconds(g.Timeout))
	}
	r.cfg.Logger.Info("the relay is going away, moving", "to", transport.WithoutQuery(url))
	next, err := r.replace(ctx, l, url)
	if next == nil && err != nil && url != l.URL && ctx.Err() == nil {
		r.cfg.Logger.Warn("the relay that was named cannot be used, connecting again to the one before", "error", err)
		next, err = r.replace(ctx, l, l.URL)
	}
	if next == nil {
		return nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-next.established:
	case err := <-next.served:
		next.served <- err
	case err := <-l.served:
		l.served <- err
		if err == nil { // everything was done on the old session
			return nil, nil
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	l.stop()
	go l.retire(timeout)
	return next, nil
}

// replace connects to a URL. It returns nil if everything is done on the old session before that.
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

// closeAll ends all sessions.
func (r *runner) closeAll() {
	for _, l := range r.links {
		l.close()
	}
}
