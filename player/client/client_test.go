package client_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/client"
	"sluice/player/client/clienttest"
)

// user is an endpoint whose Serve is a function.
type user struct {
	session.Unsupported
	serve func(context.Context) error
}

func (u user) Serve(ctx context.Context) error { return u.serve(ctx) }

func config(r *clienttest.Relay) client.SessionConfig {
	return client.SessionConfig{URL: "moqt://relay.example/app", Dial: r.Dial, Logger: slog.New(slog.DiscardHandler)}
}

// stay establishes a session and keeps it.
func stay(l *client.Link) client.Endpoint {
	return user{serve: func(ctx context.Context) error {
		l.Established()
		<-ctx.Done()
		return context.Cause(ctx)
	}}
}

var errServe = errors.New("served")

func TestRunServes(t *testing.T) {
	for _, want := range []error{nil, errServe} {
		synctest.Test(t, func(t *testing.T) {
			r := &clienttest.Relay{}
			err := client.Run(t.Context(), config(r), func(*client.Link) client.Endpoint {
				return user{serve: func(context.Context) error { return want }}
			})
			require.Equal(t, want, err)
			synctest.Wait()
			require.Error(t, r.Sessions()[0].Context().Err(), "the session was closed")
		})
	}
}

func TestRunConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{Unreachable: true}
		err := client.Run(t.Context(), config(r), stay)
		var failed *client.ConnectError
		require.ErrorAs(t, err, &failed)
		require.Len(t, r.Dialed, 1, "the first connection has to succeed at once")

		cfg := config(r)
		cfg.URL = "ftp://relay.example"
		require.ErrorContains(t, client.Run(t.Context(), cfg, stay), "ftp://relay.example")
	})
}

func TestRunGivesUp(t *testing.T) {
	for name, tt := range map[string]struct {
		code    moqt.SessionErrorCode
		timeout time.Duration
		dials   int // at most
	}{
		"when it would be refused again": {moqt.SessionUnauthorized, 0, 1},
		"when it must not try":           {moqt.SessionInternalError, -1, 1},
		"when the timeout has passed":    {moqt.SessionInternalError, 5 * time.Second, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				cfg := config(r)
				cfg.ReconnectTimeout = tt.timeout
				time.AfterFunc(time.Second, func() {
					r.SetReachable(false)
					r.Close(tt.code, "")
				})
				start := time.Now()
				err := client.Run(t.Context(), cfg, stay)
				var failed *client.ConnectError
				require.ErrorAs(t, err, &failed)
				require.LessOrEqual(t, len(r.Dialed), tt.dials)
				require.LessOrEqual(t, time.Since(start), time.Second+max(tt.timeout, 0))
			})
		})
	}
}

// TestQueriesAreNotLogged checks that logs and errors do not show the query of the relay's URL, which may hold a token.
func TestQueriesAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &clienttest.Relay{}
		cfg := config(r)
		cfg.URL += "?token=secret"
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg.ReconnectTimeout = 5 * time.Second
		go func() {
			time.Sleep(time.Second)
			r.Close(moqt.SessionInternalError, "crash")
			time.Sleep(time.Second)
			for _, s := range r.Sessions() {
				_ = s.Goaway("moqt://other.example/?token=secret", 0) // fails for the session that has ended
			}
			time.Sleep(time.Second)
			r.Close(moqt.SessionUnauthorized, "")
		}()
		err := client.Run(t.Context(), cfg, stay)
		require.ErrorContains(t, err, "moqt://other.example/")
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, cfg.URL, r.Dialed[0])
		for _, message := range []string{"session lost", "connected again", "the relay is going away"} {
			require.Contains(t, log.String(), message)
		}
		require.NotContains(t, log.String(), "secret")
	})
}

// A refusal ends Run, unless it is temporary and comes from a relay that has accepted the same before.
func TestRunIsRefused(t *testing.T) {
	final := &moqt.RequestError{Code: moqt.RequestUnauthorized}
	later := &moqt.RequestError{Code: moqt.RequestExcessiveLoad, RetryInterval: 100}
	going := &moqt.RequestError{Code: moqt.RequestGoingAway}
	for name, tt := range map[string]struct {
		serve []error // of the sessions; nil: it is lost after a second
		want  error
	}{
		"at first":                   {[]error{later}, later},
		"by a relay that goes away":  {[]error{going, errServe}, errServe},
		"for good":                   {[]error{nil, final}, final},
		"and accepted the next time": {[]error{nil, later, errServe}, errServe},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				served := 0
				err := client.Run(t.Context(), config(r), func(*client.Link) client.Endpoint {
					err := tt.serve[served]
					served++
					return user{serve: func(ctx context.Context) error {
						if err != nil {
							return err
						}
						time.AfterFunc(time.Second, func() { r.Close(moqt.SessionInternalError, "") })
						<-ctx.Done()
						return context.Cause(ctx)
					}}
				})
				require.Equal(t, tt.want, err)
				require.Equal(t, len(tt.serve), served)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // for longer than the timeout
		r := &clienttest.Relay{}
		began := time.Now()
		err := client.Run(t.Context(), config(r), func(*client.Link) client.Endpoint {
			return user{serve: func(ctx context.Context) error {
				if len(r.Dialed) > 1 {
					return later
				}
				r.Close(moqt.SessionInternalError, "")
				<-ctx.Done()
				return context.Cause(ctx)
			}}
		})
		require.Equal(t, later, err)
		require.Greater(t, time.Since(began), client.DefaultReconnectTimeout/2)
		require.Less(t, time.Since(began), client.DefaultReconnectTimeout)
	})
}

// After GOAWAY the old session is used until the new one is established, and then closed.
func TestRunMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		established := make(chan struct{})
		served := 0
		endpoint := func(l *client.Link) client.Endpoint {
			if served++; served == 1 {
				return stay(l)
			}
			return user{serve: func(ctx context.Context) error {
				require.NoError(t, r.Sessions()[0].Context().Err(), "the old session is still there")
				l.Established()
				close(established)
				<-ctx.Done()
				return context.Cause(ctx)
			}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- client.Run(ctx, config(r), endpoint) }()
		synctest.Wait()
		require.NoError(t, r.Sessions()[0].Goaway("https://new.example/moq", time.Minute))
		<-established
		synctest.Wait()
		require.Equal(t, []string{"moqt://relay.example/app", "https://new.example/moq"}, r.Dialed)
		require.Error(t, r.Sessions()[0].Context().Err())
		require.NoError(t, r.Sessions()[1].Context().Err())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// Nothing keeps a session in memory that another one has replaced.
func TestRunForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		var links []weak.Pointer[client.Link]
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- client.Run(ctx, config(r), func(l *client.Link) client.Endpoint {
				links = append(links, weak.Make(l))
				return stay(l)
			})
		}()
		const moves = 4
		for i := range moves {
			time.Sleep(time.Minute) // the session is stable, and the timers of the one before have ended
			require.NoError(t, r.Sessions()[i].Goaway("", time.Minute))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, links, moves+1)
		runtime.GC()
		for _, l := range links[:moves] {
			require.Nil(t, l.Value())
		}
		require.NotNil(t, links[moves].Value())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// If Serve completes on the old session, nothing is left to do on the new one.
func TestRunEndsWhileMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		served := 0
		err := client.Run(t.Context(), config(r), func(l *client.Link) client.Endpoint {
			if served++; served > 1 {
				return user{serve: func(ctx context.Context) error {
					<-ctx.Done()
					return context.Cause(ctx)
				}}
			}
			return user{serve: func(context.Context) error {
				require.NoError(t, r.Sessions()[0].Goaway("", time.Minute))
				time.Sleep(time.Second)
				return nil
			}}
		})
		require.NoError(t, err)
	})
}

// When the context is done, Serve still has time to finish.
func TestRunIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := client.Run(ctx, config(r), func(*client.Link) client.Endpoint {
			return user{serve: func(serving context.Context) error {
				<-ctx.Done()
				require.NoError(t, serving.Err())
				time.Sleep(time.Second)
				return nil
			}}
		})
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(start))

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, client.Run(ctx, config(r), stay), context.DeadlineExceeded, "Run does not give up")
	})
}
