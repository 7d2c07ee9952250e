package inside

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const secret = "0123456789abcdef-secret"

// guarded asks a guard whether a request may pass, and returns the status.
func guarded(g *Guard, remote, host string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/inside/events", nil)
	r.RemoteAddr, r.Host = remote, host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w
}

func newGuard(t *testing.T, token string) *Guard {
	file := ""
	if token != "" {
		file = filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	}
	g, err := NewGuard(file)
	require.NoError(t, err)
	return g
}

func TestGuard(t *testing.T) {
	const here, there, name = "127.0.0.1:5000", "192.0.2.1:5000", "relay.example"
	for title, test := range map[string]struct {
		remote, host string
		headers      []string
		without      int // the status if there is no token
		with         int
	}{
		"this machine":            {here, "localhost:4480", nil, 200, 401},
		"its address":             {here, "127.0.0.1", nil, 200, 401},
		"IPv6":                    {"[::1]:5000", "[::1]:4443", nil, 200, 401},
		"here, with the token":    {here, "localhost", []string{"Authorization", "Bearer " + secret}, 200, 200},
		"DNS rebinding":           {here, "page.example", nil, 403, 401},
		"no host":                 {here, "", nil, 403, 401},
		"a proxy":                 {here, "localhost", []string{"X-Forwarded-For", "192.0.2.7"}, 403, 401},
		"a standard proxy":        {here, "localhost", []string{"Forwarded", "for=192.0.2.7"}, 403, 401},
		"a page of another site":  {here, "localhost", []string{"Sec-Fetch-Site", "cross-site"}, 403, 403},
		"a page of the site":      {here, "localhost", []string{"Sec-Fetch-Site", "same-origin"}, 200, 401},
		"elsewhere":               {there, name, nil, 403, 401},
		"elsewhere, as localhost": {there, "localhost", nil, 403, 401},
		"Bearer":                  {there, name, []string{"Authorization", "Bearer " + secret}, 403, 200},
		"bearer":                  {there, name, []string{"Authorization", "bearer  " + secret}, 403, 200},
		"another scheme":          {there, name, []string{"Authorization", "Digest " + secret}, 403, 401},
		"a wrong token":           {there, name, []string{"Authorization", "Bearer " + secret + "x"}, 403, 401},
		"a part of the token":     {there, name, []string{"Authorization", "Bearer " + secret[1:]}, 403, 401},
		"an empty token":          {there, name, []string{"Authorization", "Bearer "}, 403, 401},
		// base64 of "anyone:" and the secret
		"Basic": {there, name, []string{"Authorization", "Basic YW55b25lOjAxMjM0NTY3ODlhYmNkZWYtc2VjcmV0"}, 403, 200},
	} {
		t.Run(title, func(t *testing.T) {
			require.Equal(t, test.without, guarded(newGuard(t, ""), test.remote, test.host, test.headers...).Code)
			w := guarded(newGuard(t, secret), test.remote, test.host, test.headers...)
			require.Equal(t, test.with, w.Code)
			require.Equal(t, w.Code == http.StatusUnauthorized, w.Header().Get("WWW-Authenticate") != "")
			require.NotContains(t, w.Body.String(), secret)
		})
	}
}

// TestLinks follows links of other sites: to the page, but to nothing else, and not into a frame.
func TestLinks(t *testing.T) {
	g := newGuard(t, "")
	handler := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range []struct {
		path, mode, dest string
		want             int
	}{
		{"/inside", "navigate", "document", 200},
		{"/inside", "navigate", "iframe", 403},
		{"/inside", "no-cors", "script", 403},
		{"/inside/events", "navigate", "document", 403},
	} {
		for _, site := range []string{"cross-site", "same-site"} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost:4480"+test.path, nil)
			r.RemoteAddr = "127.0.0.1:5000"
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", test.mode)
			r.Header.Set("Sec-Fetch-Dest", test.dest)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			require.Equal(t, test.want, w.Code, test)
		}
	}
}

// TestGuessesAtOnce sends many guesses together: no more of them are compared than of guesses in a row.
func TestGuessesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, secret)
		var compared atomic.Int32
		var guesses sync.WaitGroup
		begin := make(chan struct{})
		for range 500 {
			guesses.Go(func() {
				<-begin
				if guarded(g, "192.0.2.1:1", "relay.example", "Authorization", "Bearer a guess").Code == 401 {
					compared.Add(1)
				}
			})
		}
		synctest.Wait()
		close(begin)
		guesses.Wait()
		require.EqualValues(t, failures, compared.Load())
	})
}

// TestWrongTokens guesses: after a few wrong tokens, a source has to wait, also with the right one. Others need not.
func TestWrongTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, secret)
		show := func(remote, token string) int {
			return guarded(g, remote, "relay.example", "Authorization", "Bearer "+token).Code
		}
		for range failures {
			require.Equal(t, http.StatusUnauthorized, show("192.0.2.1:1", "a guess"))
		}
		require.Equal(t, http.StatusTooManyRequests, show("192.0.2.1:2", "a guess"))
		require.Equal(t, http.StatusTooManyRequests, show("192.0.2.1:3", secret))
		require.Equal(t, http.StatusOK, show("192.0.2.2:1", secret))
		time.Sleep(failureEvery)
		require.Equal(t, http.StatusOK, show("192.0.2.1:4", secret))

		for range failures {
			show("[2001:db8::1]:1", "a guess")
		}
		require.Equal(t, http.StatusTooManyRequests, show("[2001:db8::2]:1", secret), "a /64 counts together")
		for i := range 2 * maxSources {
			show(fmt.Sprintf("[2001:db8:%x::1]:1", i), "a guess")
		}
		require.LessOrEqual(t, g.wrong.Len(), maxSources)
	})
}

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	_, err := NewGuard(file)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, bad := range []string{"", "short", secret + "\n" + secret} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		_, err = NewGuard(file)
		require.ErrorContains(t, err, "must have one line with a token of 16 bytes")
	}
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
	g, err := NewGuard(file)
	require.NoError(t, err)
	show := func(token string) int {
		return guarded(g, "192.0.2.1:1", "relay.example", "Authorization", "Bearer "+token).Code
	}
	require.Equal(t, http.StatusOK, show(secret))
	require.NoError(t, os.WriteFile(file, []byte("another-"+secret), 0o600))
	require.Equal(t, http.StatusUnauthorized, show(secret), "the file is read again")
	require.Equal(t, http.StatusOK, show("another-"+secret))
	require.NoError(t, os.Remove(file))
	require.Equal(t, http.StatusInternalServerError, show("another-"+secret))
}

// TestTokenIsWithdrawn changes the token while somebody looks: that ends within a second.
func TestTokenIsWithdrawn(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"another token": func(file string) error {
			next := file + ".next"
			return errors.Join(os.WriteFile(next, []byte("another-"+secret), 0o600), os.Rename(next, file))
		},
		"no file": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := newGuard(t, secret), NewStream(new(counted))
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/inside/events", nil)
				r.Header.Set("Authorization", "Bearer "+secret)
				var served atomic.Bool
				go func() {
					g.Wrap(s).ServeHTTP(httptest.NewRecorder(), r)
					served.Store(true)
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.False(t, served.Load())
				require.NoError(t, change(g.tokenFile))
				time.Sleep(time.Second)
				synctest.Wait()
				require.True(t, served.Load())
			})
		})
	}
}
