package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

func token(value string) moqt.Token {
	return moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte(value)}
}

// tokenLines is an Authorizer with lines as token files have them: a token or *, words, prefixes, perhaps expires=TIME.
type tokenLines struct {
	mu      sync.Mutex
	lines   []string
	changed bool
}

func allowing(lines ...string) *tokenLines {
	return &tokenLines{lines: strings.Split(strings.Join(lines, "\n"), "\n")}
}

func (k *tokenLines) set(lines string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines, k.changed = strings.Split(lines, "\n"), true
}

// Changed implements [Reviewer].
func (k *tokenLines) Changed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() { k.changed = false }()
	return k.changed
}

// Authorize implements [Authorizer].
func (k *tokenLines) Authorize(_ context.Context, r AuthRequest) (best Grant, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	words := [...]string{"publish", "publish", "subscribe", "subscribe", "subscribe", "discover", "discover"}
	below := func(prefix string) bool { return prefix == "*" || r.Namespace.HasPrefix(strings.Split(prefix, "/")) }
	err = &moqt.RequestError{Code: moqt.RequestUnauthorized}
	for _, line := range k.lines {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "*" && !bears(r, f[0]) || !slices.ContainsFunc(strings.Split(f[2], ","), below) ||
			f[1] != "all" && !slices.Contains(strings.Split(f[1], ","), words[r.Action]) {
			continue
		}
		var g Grant
		if f[0] != "*" {
			g.Subject = subjectOf(f[0])
		}
		if len(f) > 3 {
			g.Expires, _ = time.Parse(time.RFC3339, strings.TrimPrefix(f[3], "expires="))
		}
		switch {
		case !g.Expires.IsZero() && !time.Now().Before(g.Expires):
			if err != nil {
				err = &moqt.RequestError{Code: moqt.RequestExpiredAuthToken}
			}
		case err != nil, !best.Expires.IsZero() && (g.Expires.IsZero() || g.Expires.After(best.Expires)):
			best, err = g, nil
		}
	}
	return best, err
}

func refuse(code moqt.RequestErrorCode, reason string) (Grant, error) {
	return Grant{}, &moqt.RequestError{Code: code, Reason: reason}
}

// rules is an Authorizer for tests.
type rules struct {
	mu    sync.Mutex
	asked []AuthRequest
	allow func(AuthRequest) (Grant, error)
}

func (r *rules) Authorize(_ context.Context, a AuthRequest) (Grant, error) {
	r.mu.Lock()
	r.asked = append(r.asked, a)
	allow := r.allow
	r.mu.Unlock()
	return allow(a)
}

// TestAuthorizerPanics checks that a library that panics at a token refuses the request, and nothing else.
func TestAuthorizerPanics(t *testing.T) {
	authorizer := &rules{allow: func(r AuthRequest) (Grant, error) {
		if bears(r, "bad") {
			panic("a library")
		}
		return Grant{}, nil
	}}
	onBench(t, Config{}, func(b *bench) {
		b.authorize(authorizer)
		c := b.connect()
		announce := func(tok string) error {
			p, err := c.PublishNamespace(b.t.Context(), moqt.PublishNamespace{
				Namespace: moqt.Namespace{"live"}, Parameters: shows(tok),
			})
			require.NoError(b.t, err)
			return p.Wait(b.t.Context())
		}
		refused, ok := errors.AsType[*moqt.RequestError](announce("bad"))
		require.True(b.t, ok)
		require.Equal(b.t, moqt.RequestInternalError, refused.Code)
		require.NoError(b.t, announce("good"))
	})
}

func TestEveryRequestIsAuthorized(t *testing.T) {
	deny := &rules{allow: func(AuthRequest) (Grant, error) {
		return Grant{}, &moqt.RequestError{Code: moqt.RequestUnauthorized}
	}}
	onBench(t, Config{Authorizer: deny}, func(b *bench) {
		c := b.connect(func(cfg *session.Config) { cfg.Tokens = []moqt.Token{token("setup")} })
		params := moqt.Parameters{AuthorizationTokens: []moqt.Token{token("request")}}
		_, _, err := c.subscribe(params)
		b.refused(err, moqt.RequestUnauthorized)
		_, err = (&source{}).offer(c, params)
		b.refused(err, moqt.RequestUnauthorized)
		m := standalone(at(0, 0), at(1, 0))
		m.Parameters = params
		b.refused(c.fetch(m).err, moqt.RequestUnauthorized)
		_, err = c.TrackStatus(b.ctx, moqt.TrackStatus{Track: video, Parameters: params})
		b.refused(err, moqt.RequestUnauthorized)
		p, err := c.PublishNamespace(b.ctx,
			moqt.PublishNamespace{Namespace: moqt.Namespace{"live"}, Parameters: params})
		require.NoError(t, err)
		b.refused(p.Wait(b.ctx), moqt.RequestUnauthorized)
		n, err := c.SubscribeNamespace(b.ctx,
			moqt.SubscribeNamespace{Prefix: moqt.Namespace{"live"}, Parameters: params}, nil)
		require.NoError(t, err)
		b.refused(n.Wait(b.ctx), moqt.RequestUnauthorized)
		_, err = c.subscribeTracks(params, "live")
		b.refused(err, moqt.RequestUnauthorized)

		var actions []Action
		for _, a := range deny.asked {
			actions = append(actions, a.Action)
			require.Equal(t, []string{"request", "setup"},
				[]string{string(a.Tokens[0].Value), string(a.Tokens[1].Value)})
			require.Equal(t, []string{"relay", "/"}, []string{a.Authority, a.Path})
			require.Equal(t, "live", a.Namespace[0])
		}
		require.Equal(t, []Action{ActionSubscribe, ActionPublish, ActionFetch, ActionTrackStatus,
			ActionPublishNamespace, ActionSubscribeNamespace, ActionSubscribeTracks}, actions)
	})
}

func TestPublishersMayPublishOnlyWhatTheyAreAuthorizedTo(t *testing.T) {
	auth := allowing("a publish live/a", "b publish live/b", "* subscribe *")
	onBench(t, Config{Authorizer: auth}, func(b *bench) {
		with := func(tok string) func(*session.Config) {
			return func(cfg *session.Config) { cfg.Tokens = []moqt.Token{token(tok)} }
		}
		owner, thief := b.connect(with("b")), b.connect(with("a"))
		src := owner.serve(&source{})
		owner.announce("live", "b")
		for _, ns := range []moqt.Namespace{{"live", "b"}, {"live"}, {}} {
			p, err := thief.PublishNamespace(b.ctx, moqt.PublishNamespace{Namespace: ns})
			require.NoError(t, err)
			b.refused(p.Wait(b.ctx), moqt.RequestUnauthorized)
		}
		stolen := moqt.FullTrackName{Namespace: moqt.Namespace{"live", "b"}, Name: "video"}
		p, err := thief.Publish(b.ctx, moqt.Publish{Track: stolen})
		require.NoError(t, err)
		b.refused(p.Wait(b.ctx), moqt.RequestUnauthorized)
		k := &sink{}
		s, err := b.connect().Subscribe(b.ctx, moqt.Subscribe{Track: stolen}, k)
		require.NoError(t, err)
		_, err = s.Wait(b.ctx)
		require.NoError(t, err)
		synctest.Wait()
		src.group(1, 1)
		require.Equal(t, "1.0, 1 fin", k.take())
	})
}

func TestGrantsExpire(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		start := time.Now()
		auth := &rules{allow: func(a AuthRequest) (Grant, error) {
			life := 10 * time.Second
			if len(a.Tokens) > 0 && a.Action == ActionSubscribe {
				life = 60 * time.Second
			} else if len(a.Tokens) > 0 {
				life = time.Hour
			}
			return Grant{Expires: start.Add(life)}, nil
		}}
		b.authorize(auth)
		pub := b.connect()
		src := pub.serve(&source{})
		ns := pub.announce("live")
		_, s := b.connect().mustSubscribe(moqt.Parameters{})
		_, extended := b.connect().mustSubscribe(moqt.Parameters{})
		ok, err := s.Wait(b.ctx)
		require.NoError(t, err)
		require.Equal(t, uint64(10_000), *ok.Parameters.Expires)
		update := b.update(extended, moqt.Parameters{AuthorizationTokens: []moqt.Token{token("fresh")}})
		require.Equal(t, uint64(60_000), *update.Parameters.Expires)
		watch := b.connect().mustWatch("live")

		b.done(s, moqt.DoneExpired)
		require.InDelta(t, 10, time.Since(start).Seconds(), 0.2)
		synctest.Wait()
		require.Error(t, ns.Context().Err())
		require.Error(t, watch.Context().Err())
		require.NoError(t, extended.Context().Err())
		_, err = (&source{}).offer(b.connect(), moqt.Parameters{
			AuthorizationTokens: []moqt.Token{token("fresh")},
		})
		require.NoError(t, err)
		require.Nil(t, src.publication(), "the relay has ended its subscription, too")
		b.done(extended, moqt.DoneExpired)
		require.InDelta(t, 60, time.Since(start).Seconds(), 0.2)
	})
}

func TestActionsHaveTheNamesOfTheirMessages(t *testing.T) {
	require.Len(t, messageNames, int(ActionSubscribeTracks)+1)
	require.Equal(t, "PUBLISH", ActionPublish.String())
	require.Equal(t, "FETCH", ActionFetch.String())
	require.Equal(t, "SUBSCRIBE_TRACKS", ActionSubscribeTracks.String())
	require.Equal(t, "Action(200)", Action(200).String())
}
