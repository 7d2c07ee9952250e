package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sluice/internal/keep"
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

// shutdownTimeout is how long Serve may take to return when Run's context is done.
const shutdownTimeout = 5 * time.Second

// Run connects to the relay and serves the session, and then each session that replaces it, with an Endpoint each. It
// returns when an Endpoint or the context is done. It does not repeat the first attempt to connect.
func Run(ctx context.Context, cfg SessionConfig, endpoint func(*Link) Endpoint) error {
	r := &runner{cfg: cfg.withDefaults(), endpoint: endpoint}
	kept, done := context.WithCancel(ctx)
	defer done()
	r.done = done
	err := keep.Run(kept, keep.Config{
		URL: cfg.URL, Dial: r.dial, Final: r.isFinal, Note: r.note, Grace: shutdownTimeout,
		Follow: func(named string) string { return named },
		// A relay restarts in less than a second.
		Backoff: keep.Backoff{First: 200 * time.Millisecond, Last: 5 * time.Second, GiveUp: r.cfg.ReconnectTimeout},
	})
	_, lost := errors.AsType[*ConnectError](err)
	switch {
	case kept.Err() != nil && ctx.Err() == nil: // an Endpoint is done
		return nil
	case lost && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// runner is a call of Run.
type runner struct {
	cfg      SessionConfig
	endpoint func(*Link) Endpoint
	done     func()    // ends Run
	serving  []serving // of the sessions so far, but for some that have ended
	sessions int       // number of sessions established so far
}

// dial opens a session.
func (r *runner) dial(ctx context.Context, url string) (*keep.Session, error) {
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
	r.serving = slices.DeleteFunc(r.serving, func(s serving) bool { return s.Err() != nil })
	l := &Link{URL: url, goaway: make(chan moqt.Goaway, 1), before: slices.Clone(r.serving)}
	l.endpoint = r.endpoint(l)
	l.Session, err = session.New(conn, session.Config{
		Handler: mover{l.endpoint, l}, Authority: target.Authority, Path: target.Path, Tokens: r.cfg.Tokens,
		Logger: r.cfg.Logger,
	})
	if err != nil {
		return nil, &ConnectError{url, errors.Join(err, conn.CloseWithError(uint64(moqt.SessionInternalError), ""))}
	}
	l.serving.Context, l.serving.stop = context.WithCancel(l.Context())
	r.serving = append(r.serving, l.serving)
	return &keep.Session{
		Run: func(ctx context.Context) error {
			err := l.run(ctx)
			if err == nil {
				r.done() // whichever session it is
			}
			return err
		},
		Ready: l.Ready(), Goaway: l.goaway,
		Retire: func(time.Duration) { <-l.serving.Done() },
	}, nil
}

// isFinal reports whether an error ends Run: everything is done, nobody has to try again, or another attempt would end
// with the same error. A refusal that the relay calls temporary does not, if it has accepted the same before.
func (r *runner) isFinal(err error) bool {
	if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
		goes := refused.Code == moqt.RequestGoingAway // another process of the relay may accept it
		return !goes && (r.sessions == 1 || refused.RetryInterval == 0)
	}
	_, lost := errors.AsType[*ConnectError](err)
	return !lost || r.sessions == 0 || r.cfg.ReconnectTimeout < 0 || isFatal(err)
}

// isFatal reports whether the relay has ended the session for a reason that another one would have, too.
func isFatal(err error) bool {
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

// mover takes GOAWAY for package keep, and passes everything else to the Endpoint.
type mover struct {
	session.Handler
	link *Link
}

func (m mover) HandleGoaway(_ *session.Session, g moqt.Goaway) { m.link.goaway <- g }

// note logs what happens.
func (r *runner) note(e keep.Event, url string, err error) {
	log, relay := r.cfg.Logger, transport.WithoutQuery(url)
	switch {
	case e == keep.Connected:
		if r.sessions++; r.sessions > 1 {
			log.Info("connected again", "relay", relay)
		}
	case e == keep.Lost:
		if lost, ok := errors.AsType[*ConnectError](err); ok {
			err = errors.Unwrap(lost.Err) // without the URL
		}
		log.Warn("session lost, connecting again", "relay", relay, "err", err)
	case e == keep.Moving && err == nil:
		log.Info("the relay is going away, moving", "to", relay)
	case e == keep.Moving:
		log.Warn("the relay that was named cannot be used, connecting again to the one before", "err", err)
	}
}
