package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
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

func tokenFile(t *testing.T, lines ...string) *TokenFile {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600))
	f, err := OpenTokenFile(name, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return f
}

func TestTokenFile(t *testing.T) {
	digest := sha256.Sum256([]byte("hashed"))
	f := tokenFile(t,
		"# who may do what",
		"",
		"cam1    publish            live/room1,live/room2   # a camera",
		"viewer  subscribe,discover live",
		"sha256:"+hex.EncodeToString(digest[:])+" all *",
		"*       subscribe          public/%2fslash%20and-dash",
		"old     subscribe          live                    expires=2020-01-01T00:00:00Z",
		"soon    subscribe          live                    expires=2120-01-01T00:00:00Z",
	)
	ns := func(s string) moqt.Namespace { return strings.Split(s, "/") }
	tests := []struct {
		action    Action
		namespace moqt.Namespace
		tokens    string
		want      moqt.RequestErrorCode // 0: allowed
	}{
		{ActionPublish, ns("live/room1"), "cam1", 0},
		{ActionPublishNamespace, ns("live/room1/sub"), "cam1", 0},
		{ActionPublish, ns("live/room2"), "wrong cam1", 0},
		{ActionPublish, ns("live/room3"), "cam1", moqt.RequestUnauthorized},
		{ActionPublishNamespace, ns("live"), "cam1", moqt.RequestUnauthorized},
		{ActionPublish, ns("live/room10"), "cam1", moqt.RequestUnauthorized},
		{ActionSubscribe, ns("live/room1"), "cam1", moqt.RequestUnauthorized},
		{ActionSubscribe, ns("live/room1"), "viewer", 0},
		{ActionFetch, ns("live/room1"), "viewer", 0},
		{ActionTrackStatus, ns("live/room1"), "viewer", 0},
		{ActionSubscribeNamespace, ns("live"), "viewer", 0},
		{ActionSubscribeTracks, ns("live/x"), "viewer", 0},
		{ActionSubscribeNamespace, moqt.Namespace{}, "viewer", moqt.RequestUnauthorized},
		{ActionPublish, ns("live/room1"), "viewer", moqt.RequestUnauthorized},
		{ActionPublish, ns("anything"), "hashed", 0},
		{ActionSubscribeNamespace, moqt.Namespace{}, "hashed", 0},
		{ActionSubscribe, moqt.Namespace{"public", "/slash and-dash"}, "", 0},
		{ActionSubscribe, moqt.Namespace{"public", "/slash and-dash"}, "unknown", 0},
		{ActionSubscribe, ns("live"), "", moqt.RequestUnauthorized},
		{ActionSubscribe, ns("live"), "old", moqt.RequestExpiredAuthToken},
		{ActionSubscribe, ns("live"), "old viewer", 0},
		{ActionSubscribe, ns("live"), "soon", 0},
		{ActionSubscribe, ns("live"), "view", moqt.RequestUnauthorized},
		{ActionSubscribe, ns("live"), hex.EncodeToString(digest[:]), moqt.RequestUnauthorized},
	}
	for _, tt := range tests {
		var tokens []moqt.Token
		for _, v := range strings.Fields(tt.tokens) {
			tokens = append(tokens, token(v))
		}
		grant, err := f.Authorize(context.Background(),
			AuthRequest{Action: tt.action, Namespace: tt.namespace, Tokens: tokens})
		if tt.want == 0 {
			require.NoError(t, err, tt)
			require.Equal(t, tt.tokens == "soon", !grant.Expires.IsZero())
			continue
		}
		var refused *moqt.RequestError
		require.ErrorAs(t, err, &refused, tt)
		require.Equal(t, tt.want, refused.Code, tt)
	}
}

func TestTokenFileErrors(t *testing.T) {
	for line, want := range map[string]string{
		"tok":                           "line 1: want a token",
		"tok publish":                   "line 1: want a token",
		"tok fly live":                  `line 1: action "fly" is none of`,
		"tok publish a//b":              `line 1: namespace prefix "a//b"`,
		"tok publish %zz":               `line 1: namespace prefix "%zz"`,
		"sha256:12 publish live":        "line 1: sha256: wants 64",
		"tok publish live until=x":      "line 1: want a token",
		"tok publish live expires=noon": "line 1: expires: write the time as",
		"ok publish a\ntok publish":     "line 2: want a token",
	} {
		_, err := parseTokens(strings.NewReader(line))
		require.ErrorContains(t, err, want, line)
	}
	_, err := OpenTokenFile(filepath.Join(t.TempDir(), "none"), slog.Default())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTokenFileIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tokenFile(t, "one all *")
		allowed := func(tok string) bool {
			for range 2 { // a change is believed at the second look
				time.Sleep(tokenCheckInterval)
				f.current()
			}
			_, err := f.Authorize(context.Background(), AuthRequest{Tokens: []moqt.Token{token(tok)}})
			return err == nil
		}
		write := func(s string) { require.NoError(t, os.WriteFile(f.name, []byte(s), 0o600)) }
		require.True(t, allowed("one"))
		write("two22 all *")
		require.False(t, allowed("one"))
		require.True(t, allowed("two22"))
		write("this is no token file at all")
		require.True(t, allowed("two22"), "a bad file changes nothing")
		require.NoError(t, os.Remove(f.name))
		require.True(t, allowed("two22"))
		write("three all *")
		require.True(t, allowed("three"))
	})
}

// TestExposedTokenFile checks that a file with secrets that other users can read is reported when it is read first, and
// when it is read again.
func TestExposedTokenFile(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", sha256.Size)
	for _, tt := range []struct {
		content string
		mode    os.FileMode
		want    string // in the log; empty: nothing
	}{
		{"secret all *", 0o600, ""},
		{"secret all *", 0o640, ""},
		{"secret all *", 0o644, "every user of this machine can read"},
		{"secret all *", 0o604, "every user of this machine can read"},
		{"secret all *", 0o646, "every user of this machine can change"},
		{"* all *\n" + digest + " all *", 0o644, ""},
		{"* all *\n" + digest + " all *", 0o662, "every user of this machine can change"},
		{"* all *\n" + digest + " all *\nsecret subscribe *", 0o644, "every user of this machine can read"},
	} {
		name := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(name, []byte(tt.content), 0o600))
		require.NoError(t, os.Chmod(name, tt.mode))
		var log strings.Builder
		f, err := OpenTokenFile(name, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, []byte(tt.content+"\n"), 0o600))
		for _, complete := range []bool{false, true} {
			f.checked = time.Time{}
			require.Equal(t, complete, f.Changed(), "a change is believed at the second look")
		}
		require.Contains(t, log.String(), "reloaded the authorization tokens")
		require.NotContains(t, log.String(), "secret")
		if tt.want == "" {
			require.NotContains(t, log.String(), "level=WARN", "%s %o", tt.content, tt.mode)
			continue
		}
		require.Equal(t, 2, strings.Count(log.String(), tt.want), log.String())
		require.Equal(t, 2, strings.Count(log.String(), fmt.Sprintf("file=%s mode=%#o", name, tt.mode)), log.String())
		require.Contains(t, log.String(), "chmod")
	}
}

func TestLargeTokenFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, maxTokenFile+1))
	_, err := OpenTokenFile(name, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "16777217 bytes: must be at most 16777216")
}

// BenchmarkTokenFile authorizes a request with as many tokens as it may have, none of them right. The time per request
// must not depend on the number of lines.
func BenchmarkTokenFile(b *testing.B) {
	var tokens []moqt.Token
	for i := range 2 * moqt.MaxAuthTokens {
		tokens = append(tokens, token(fmt.Sprintf("%0*d", moqt.MaxAuthTokenBytes/moqt.MaxAuthTokens, i)))
	}
	for _, lines := range []int{10, 10_000} {
		b.Run(fmt.Sprint(lines, " lines"), func(b *testing.B) {
			var text strings.Builder
			for i := range lines {
				fmt.Fprintf(&text, "token%d all live\n", i)
			}
			table, err := parseTokens(strings.NewReader(text.String()))
			require.NoError(b, err)
			f := &TokenFile{table: table, checked: time.Now().Add(time.Hour)}
			for b.Loop() {
				_, err := f.Authorize(b.Context(), AuthRequest{Tokens: tokens})
				require.Error(b, err)
			}
		})
	}
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
	auth := tokenFile(t, "a publish live/a", "b publish live/b", "* subscribe *")
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
		update, err := extended.Update(b.ctx, moqt.Parameters{AuthorizationTokens: []moqt.Token{token("fresh")}})
		require.NoError(t, err)
		require.Equal(t, uint64(60_000), *update.Parameters.Expires)
		watch, err := b.connect().watch("live")
		require.NoError(t, err)

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

func FuzzParseTokens(f *testing.F) {
	f.Add("tok publish,subscribe live/a,* expires=2020-01-01T00:00:00Z\n# comment\n* all *")
	f.Add("sha256:00 discover %41%")
	f.Fuzz(func(t *testing.T, s string) {
		table, err := parseTokens(strings.NewReader(s))
		if err != nil {
			return
		}
		lines := slices.Concat(table.anybody, slices.Concat(slices.Collect(maps.Values(table.of))...))
		for _, e := range lines {
			require.NotEmpty(t, e.actions)
			require.NotEmpty(t, e.prefixes)
			for _, p := range e.prefixes {
				require.NoError(t, p.Validate())
			}
		}
		require.Len(t, lines, table.len())
		require.LessOrEqual(t, table.len(), strings.Count(s, "\n")+1)
	})
}
