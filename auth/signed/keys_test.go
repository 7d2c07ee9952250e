package signed

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

var quiet = slog.New(slog.DiscardHandler)

// setOf encodes a set of keys with these ids.
func setOf(t testing.TB, ids ...string) string {
	var set jose.JSONWebKeySet
	for _, id := range ids {
		seed := make([]byte, ed25519.SeedSize)
		copy(seed, id)
		key := ed25519.NewKeyFromSeed(seed)
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id})
	}
	b, err := json.Marshal(set)
	require.NoError(t, err)
	return string(b)
}

func (k *Keys) ids(t *testing.T, id string) (ids []string) {
	found, _ := k.Find(t.Context(), id)
	for _, key := range found {
		ids = append(ids, key.KeyID)
	}
	return ids
}

// age makes the last attempt, and the last success, longer ago.
func (k *Keys) age(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried, k.read = k.tried.Add(-d), k.read.Add(-d)
}

func TestKeysOfAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "keys.json")
	write := func(s string) { require.NoError(t, os.WriteFile(name, []byte(s), 0o600)) }
	write(setOf(t, "a", "b"))
	k, err := OpenKeys(name, quiet)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, k.ids(t, ""))
	require.Equal(t, []string{"b"}, k.ids(t, "b"))
	require.Empty(t, k.ids(t, "c"))
	require.False(t, k.Changed())

	look := func() bool {
		k.age(fileInterval)
		return k.Changed()
	}
	before := k.Version()
	write(setOf(t, "b", "c", "d"))
	require.True(t, look())
	require.False(t, look(), "it is reported once")
	require.NotEqual(t, before, k.Version())
	require.Equal(t, []string{"b", "c", "d"}, k.ids(t, ""))
	for _, broken := range []string{"", "{", `{"keys": []}`} {
		write(broken)
		require.False(t, look())
		require.Equal(t, []string{"b", "c", "d"}, k.ids(t, ""), "the old keys stay in force")
	}
	require.NoError(t, os.Remove(name))
	require.False(t, look())
	write(setOf(t, "e"))
	require.True(t, look())
	require.Equal(t, []string{"e"}, k.ids(t, ""))
}

// keyServer serves a set that can be changed.
type keyServer struct {
	mu     sync.Mutex
	status int
	body   string
	asked  int
}

func (s *keyServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	w.WriteHeader(s.status)
	io.WriteString(w, s.body)
}

func (s *keyServer) set(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

func (s *keyServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func serveKeys(t *testing.T, body string) (*keyServer, *Keys) {
	s := &keyServer{status: http.StatusOK, body: body}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	k, err := OpenKeys(server.URL, quiet)
	require.NoError(t, err)
	return s, k
}

// refresh makes the keys old, waits until they were read again, and reports whether they have changed.
func (k *Keys) refresh() bool {
	k.age(urlInterval)
	changed := k.Changed()               // true if they were read before it has returned
	_, _, _ = k.flights.Do("", k.reload) // joins a reload that is under way, or is a second one
	return k.Changed() || changed
}

func TestKeysOfAURL(t *testing.T) {
	s, k := serveKeys(t, setOf(t, "a"))
	require.Equal(t, []string{"a"}, k.ids(t, "a"))
	require.False(t, k.Changed())
	require.Equal(t, 1, s.count(), "the keys are new")
	s.set(http.StatusOK, setOf(t, "a", "b"))
	require.True(t, k.refresh())
	require.Equal(t, []string{"a", "b"}, k.ids(t, ""))
	for _, broken := range []struct {
		status int
		body   string
	}{
		{http.StatusInternalServerError, setOf(t, "x")},
		{http.StatusOK, "<html>"},
		{http.StatusOK, `{"keys": [` + strings.Repeat(" ", maxKeySet) + `]}`},
	} {
		s.set(broken.status, broken.body)
		require.False(t, k.refresh())
		require.Equal(t, []string{"a", "b"}, k.ids(t, ""), "the old keys stay in force")
	}
}

// TestKeysThatAreAwaited looks for the first keys of a URL less and less often, and then as for any.
func TestKeysThatAreAwaited(t *testing.T) {
	s := &keyServer{status: http.StatusServiceUnavailable}
	server := httptest.NewServer(s)
	defer server.Close()
	var log strings.Builder
	k, err := AwaitKeys(server.URL, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for asked, gap := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		require.Equal(t, gap*time.Second, k.gap)
		require.Equal(t, asked+1, s.count())
		require.False(t, k.Known())
		k.age(k.gap)
		found, version := k.Find(t.Context(), "a")
		require.Empty(t, found)
		require.Zero(t, version)
	}
	require.False(t, k.Changed())
	require.Equal(t, 1, strings.Count(log.String(), "there are no keys of authorization tokens yet"))

	s.set(http.StatusOK, setOf(t, "a"))
	require.True(t, k.refresh())
	require.True(t, k.Known())
	require.Equal(t, []string{"a"}, k.ids(t, "a"))
	require.Equal(t, urlRetry, k.gap)

	_, err = AwaitKeys(filepath.Join(t.TempDir(), "none"), quiet)
	require.ErrorIs(t, err, os.ErrNotExist, "nobody puts a file there later")
}

func TestUnknownKeysAreLookedFor(t *testing.T) {
	s, k := serveKeys(t, setOf(t, "a"))
	s.set(http.StatusOK, setOf(t, "a", "new"))
	require.Empty(t, k.ids(t, "new"), "the keys were read lately")
	k.age(urlRetry)
	require.Equal(t, []string{"new"}, k.ids(t, "new"))
	require.Equal(t, 2, s.count())
	for i := range 10 {
		require.Empty(t, k.ids(t, fmt.Sprint("unknown", i)))
	}
	require.Equal(t, 2, s.count(), "unknown ids do not make the relay ask all the time")
	require.True(t, k.Changed())
}

func TestOpenKeysErrors(t *testing.T) {
	_, err := OpenKeys(filepath.Join(t.TempDir(), "none"), quiet)
	require.ErrorIs(t, err, os.ErrNotExist)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err = OpenKeys(server.URL+"/?key=hidden", quiet)
	require.ErrorContains(t, err, "status 404")
	require.NotContains(t, err.Error(), "hidden")
}

func TestParseKeys(t *testing.T) {
	good := strings.TrimSuffix(strings.TrimPrefix(setOf(t, "a"), `{"keys":[`), `]}`)
	set, err := parseKeys([]byte(good))
	require.NoError(t, err, "a single key")
	require.Len(t, set, 1)
	const secret = `{"kty":"oct","kid":"s","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}`
	set, err = parseKeys([]byte(`{"keys": [{"kty": "new"}, ` + secret + `, {"kty":"oct","k":"AAEC"}, ` + good + `]}`))
	require.NoError(t, err)
	require.Len(t, set, 2, "unknown types and short secrets are left out")
	require.True(t, hasSecrets(set))
	many := `{"keys": [` + strings.Repeat(secret+",", maxKeys) + secret + `]}`
	for text, want := range map[string]string{
		many:                                  "65 keys: at most 64",
		`{"keys": []}`:                        "no key can be used",
		`{"keys": [{"kty":"oct","k":"AA"}]}`:  "1 bytes; a secret must have at least 32",
		`[]`:                                  "not a JSON Web Key Set",
		`{"kty":"RSA","n":"AQAB","e":"AQAB"}`: "17 bits; an RSA key must have",
		strings.Replace(good, `{`, `{"use":"enc",`, 1): `its use is "enc", not sig`,
	} {
		_, err := parseKeys([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func TestPrivateKeysAreNotKept(t *testing.T) {
	private := jose.JSONWebKey{Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), KeyID: "p"}
	b, err := private.MarshalJSON()
	require.NoError(t, err)
	set, err := parseKeys(b)
	require.NoError(t, err)
	require.True(t, set[0].IsPublic())
}

func TestReadableSecrets(t *testing.T) {
	const secret = `{"kty":"oct","kid":"s","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}`
	name := filepath.Join(t.TempDir(), "keys.json")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		require.NoError(t, os.WriteFile(name, []byte(secret), mode))
		require.NoError(t, os.Chmod(name, mode))
		var log strings.Builder
		_, err := OpenKeys(name, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		require.Equal(t, warned, strings.Contains(log.String(), "chmod o-rwx"))
		require.NotContains(t, log.String(), "AAEC")
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(setOf(f, "a", "b")))
	f.Add([]byte(`{"kty":"oct","kid":"s","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}`))
	f.Add([]byte(`{"kty":"RSA","n":"AQAB","e":"AQAB"}`))
	f.Add([]byte(`{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var set []jose.JSONWebKey
		var err error
		testlimit.Run(t, len(b), 1000, func() { set, err = parseKeys(b) })
		if err != nil {
			return
		}
		require.NotEmpty(t, set)
		for i := range set {
			require.NoError(t, checkStrength(&set[i]))
		}
	})
}
