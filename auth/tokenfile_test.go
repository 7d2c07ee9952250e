package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/relay"
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
		action    relay.Action
		namespace moqt.Namespace
		tokens    string
		want      moqt.RequestErrorCode // 0: allowed
	}{
		{relay.ActionPublish, ns("live/room1"), "cam1", 0},
		{relay.ActionPublishNamespace, ns("live/room1/sub"), "cam1", 0},
		{relay.ActionPublish, ns("live/room2"), "wrong cam1", 0},
		{relay.ActionPublish, ns("live/room3"), "cam1", moqt.RequestUnauthorized},
		{relay.ActionPublishNamespace, ns("live"), "cam1", moqt.RequestUnauthorized},
		{relay.ActionPublish, ns("live/room10"), "cam1", moqt.RequestUnauthorized},
		{relay.ActionSubscribe, ns("live/room1"), "cam1", moqt.RequestUnauthorized},
		{relay.ActionSubscribe, ns("live/room1"), "viewer", 0},
		{relay.ActionFetch, ns("live/room1"), "viewer", 0},
		{relay.ActionTrackStatus, ns("live/room1"), "viewer", 0},
		{relay.ActionSubscribeNamespace, ns("live"), "viewer", 0},
		{relay.ActionSubscribeTracks, ns("live/x"), "viewer", 0},
		{relay.ActionSubscribeNamespace, moqt.Namespace{}, "viewer", moqt.RequestUnauthorized},
		{relay.ActionPublish, ns("live/room1"), "viewer", moqt.RequestUnauthorized},
		{relay.ActionPublish, ns("anything"), "hashed", 0},
		{relay.ActionSubscribeNamespace, moqt.Namespace{}, "hashed", 0},
		{relay.ActionSubscribe, moqt.Namespace{"public", "/slash and-dash"}, "", 0},
		{relay.ActionSubscribe, moqt.Namespace{"public", "/slash and-dash"}, "unknown", 0},
		{relay.ActionSubscribe, ns("live"), "", moqt.RequestUnauthorized},
		{relay.ActionSubscribe, ns("live"), "old", moqt.RequestExpiredAuthToken},
		{relay.ActionSubscribe, ns("live"), "old viewer", 0},
		{relay.ActionSubscribe, ns("live"), "soon", 0},
		{relay.ActionSubscribe, ns("live"), "view", moqt.RequestUnauthorized},
		{relay.ActionSubscribe, ns("live"), hex.EncodeToString(digest[:]), moqt.RequestUnauthorized},
	}
	for _, tt := range tests {
		var tokens []moqt.Token
		for _, v := range strings.Fields(tt.tokens) {
			tokens = append(tokens, token(v))
		}
		grant, err := f.Authorize(context.Background(),
			relay.AuthRequest{Action: tt.action, Namespace: tt.namespace, Tokens: tokens})
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
			_, err := f.Authorize(context.Background(), relay.AuthRequest{Tokens: []moqt.Token{token(tok)}})
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
	require.ErrorContains(t, err, "larger than 16777216 bytes")
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
				_, err := f.Authorize(b.Context(), relay.AuthRequest{Tokens: tokens})
				require.Error(b, err)
			}
		})
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add("tok publish,subscribe live/a,* expires=2020-01-01T00:00:00Z\n# comment\n* all *")
	f.Add("sha256:00 discover %41%")
	f.Fuzz(func(t *testing.T, s string) {
		defer testlimit.Start(t, len(s), 1000)()
		table, err := parseTokens(strings.NewReader(s))
		if err != nil {
			return
		}
		lines := slices.Concat(table.anybody, slices.Concat(slices.Collect(maps.Values(table.of))...))
		for _, e := range lines {
			require.NotEmpty(t, e.words)
			require.NotEmpty(t, e.prefixes)
			for _, p := range e.prefixes {
				require.NoError(t, p.Validate())
			}
		}
		require.Len(t, lines, table.len())
		require.LessOrEqual(t, table.len(), strings.Count(s, "\n")+1)
	})
}

// TestSubjectsOfTokens checks that the subject of a token does not reveal it.
func TestSubjectsOfTokens(t *testing.T) {
	f := tokenFile(t, "secret publish live", "* subscribe live")
	ns, tokens := moqt.Namespace{"live"}, []moqt.Token{token("secret")}
	g, err := f.Authorize(context.Background(),
		relay.AuthRequest{Action: relay.ActionPublish, Namespace: ns, Tokens: tokens})
	require.NoError(t, err)
	require.Len(t, g.Subject, len("sha256:")+64)
	g, err = f.Authorize(context.Background(),
		relay.AuthRequest{Action: relay.ActionSubscribe, Namespace: ns, Tokens: tokens})
	require.NoError(t, err)
	require.Empty(t, g.Subject)
}
