package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
	"sluice/internal/thorough"
)

// later returns a function of a Manager that is opened later.
func later(n **node) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return (*n).Certificate(hello) }
}

// TestFirstIssue gets certificates for two names by a challenge at the web page.
func TestFirstIssue(t *testing.T) {
	t.Parallel()
	var n *node
	where, names, dir := page(t, later(&n)), unique(t, 2), filepath.Join(t.TempDir(), "new")
	a := newAuthority(t, where, nil, long, false)
	n = open(t, a.config(dir, names...))
	for range names {
		n.requireLine(t, "WARN", "there is no certificate yet")
	}
	_, err := n.Certificate(&tls.ClientHelloInfo{ServerName: names[0]})
	require.ErrorContains(t, err, "has not issued a certificate yet")

	n.Start(where, nil)
	for range names {
		require.Equal(t, checkInterval, <-n.paused)
		n.requireLine(t, "INFO", "certificate issued", ".example")
	}
	for _, name := range names {
		require.NoError(t, a.shown(t, where, name).VerifyHostname(name))
	}
	cert, err := n.Certificate(new(tls.ClientHelloInfo)) // as for a client that dials an address
	require.NoError(t, err)
	require.NoError(t, cert.Leaf.VerifyHostname(names[0]))
	require.EqualValues(t, 2, a.orders.Load())
	requirePrivate(t, dir)

	n.Close()
	stored := open(t, a.config(dir, names...)) // another process
	stored.requireLine(t, "INFO", "certificate from storage", names[0])
	again, err := stored.Certificate(new(tls.ClientHelloInfo))
	require.NoError(t, err)
	require.Equal(t, cert.Certificate, again.Certificate)
}

// requirePrivate expects nobody else to be able to read what is in a directory.
func requirePrivate(t *testing.T, dir string) {
	keys := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		if filepath.Ext(path) == ".key" {
			keys++
		}
		if filepath.Ext(path) != ".lock" {
			require.Zero(t, info.Mode().Perm()&0o077, "%s %s", path, info.Mode())
		}
		return nil
	}))
	require.Equal(t, 3, keys, "the account's, and one for each name")
}

// TestHTTPChallenge has no web page.
func TestHTTPChallenge(t *testing.T) {
	t.Parallel()
	var n *node
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	where, names := l.Addr().(*net.TCPAddr), unique(t, 1)
	a := newAuthority(t, nil, where, long, false)
	n = open(t, a.config(t.TempDir(), names...))
	s := &http.Server{Handler: n.HTTPHandler()}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	n.Start(nil, where)
	<-n.paused
	n.requireLine(t, "there is no certificate yet")
	n.requireLine(t, "certificate issued", names[0])

	answer, err := http.Get("http://" + l.Addr().String() + "/other")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

// TestRenewal renews a certificate that is short of its end. The old one is served while the authority is down.
func TestRenewal(t *testing.T) {
	t.Parallel()
	var n *node
	where, names := page(t, later(&n)), unique(t, 1)
	a := newAuthority(t, where, nil, short, false)
	n = open(t, a.config(t.TempDir(), names...))
	n.Start(where, nil)
	require.Equal(t, checkInterval, <-n.paused)
	n.requireLine(t, "there is no certificate yet")
	n.requireLine(t, "certificate issued")
	first := a.shown(t, where, names[0])

	a.refuseAll(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	require.Equal(t, firstPause, n.again())
	n.requireLine(t, "ERROR", "cannot get a certificate", names[0], "HTTP 403", "next try")
	require.True(t, first.Equal(a.shown(t, where, names[0])))
	require.Equal(t, firstPause*pauseFactor, n.again())
	n.requireLine(t, "ERROR")

	a.refuse.Store(nil)
	require.Equal(t, checkInterval, n.again())
	n.requireLine(t, "INFO", "certificate renewed", names[0])
	second := a.shown(t, where, names[0])
	require.False(t, first.Equal(second))
	require.False(t, second.NotAfter.Before(first.NotAfter))

	a.refuseAll(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	require.Equal(t, firstPause, n.again(), "pauses begin anew")
}

// TestAuthorityIsDown starts without an authority: with a certificate that is stored, and without one.
func TestAuthorityIsDown(t *testing.T) {
	t.Parallel()
	var n *node
	where, names, dir := page(t, later(&n)), unique(t, 2), t.TempDir()
	a := newAuthority(t, where, nil, long, false)
	n = open(t, a.config(dir, names[0]))
	n.Start(where, nil)
	<-n.paused
	n.Close()

	a.refuseAll(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	n = open(t, a.config(dir, names...))
	n.requireLine(t, "certificate from storage", names[0])
	n.requireLine(t, "there is no certificate yet", names[1])
	n.Start(where, nil)
	require.ElementsMatch(t, []time.Duration{firstPause, checkInterval}, []time.Duration{<-n.paused, <-n.paused})
	n.requireLine(t, "ERROR", names[1], "next try")
	n.requireQuiet(t)
	a.shown(t, where, names[0])
	other, err := n.Certificate(&tls.ClientHelloInfo{ServerName: names[1]})
	require.NoError(t, err)
	require.NoError(t, other.Leaf.VerifyHostname(names[0]), "better than none")

	a.refuse.Store(nil)
	for range names { // both are at it before either pauses
		n.resume <- struct{}{}
	}
	for range names {
		require.Equal(t, checkInterval, <-n.paused)
	}
	n.requireLine(t, "certificate issued", names[1])
	a.shown(t, where, names[1])
}

// TestRefused has authorities that issue nothing, or cannot. The log says what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	tooMany := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many orders"}`))
	}
	for name, c := range map[string]struct {
		customers bool // the authority serves only its customers
		astray    bool // it looks where nothing listens
		known     bool // the library has the directory already
		refuses   http.HandlerFunc
		change    func(*Config)
		pause     time.Duration
		want      []string
	}{
		"too-many-requests": {
			refuses: tooMany, pause: limitedPause,
			want: []string{"too many orders", "more tries do not help", "next try"},
		},
		"too-many-nonces": {
			known: true, refuses: tooMany, pause: limitedPause, want: []string{"new nonce", "more tries do not help"},
		},
		"account": {
			customers: true, pause: firstPause, want: []string{
				"registering account", "the authority serves only its customers: choose another one by --acme-ca",
			},
		},
		"address": {
			change: func(c *Config) { c.Email = "nobody" },
			pause:  firstPause, want: []string{"registering account", "change --acme-email"},
		},
		"not-reachable": {
			astray: true, pause: firstPause,
			want: []string{"Failed to connect", "the authority must reach this relay by the name"},
		},
		"unknown-authority": {
			change: func(c *Config) { c.RootFile = certtest.New(t).Issue(t).CA },
			pause:  firstPause, want: []string{"--acme-ca-root says whom to trust"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n *node
			where, name := page(t, later(&n)), fmt.Sprintf("refused-%s.example", name)
			seen := where
			if c.astray {
				seen = nil
			}
			a := newAuthority(t, seen, nil, long, c.customers)
			cfg := a.config(t.TempDir(), name)
			if c.known {
				library := &acme.Client{Directory: cfg.Directory, HTTPClient: a.Client()}
				_, err := library.GetDirectory(t.Context())
				require.NoError(t, err)
			}
			if c.refuses != nil {
				a.refuseAll(c.refuses)
			}
			if c.change != nil {
				c.change(&cfg)
			}
			n = open(t, cfg)
			n.requireLine(t, "there is no certificate yet")
			n.Start(where, nil)
			require.Equal(t, c.pause, <-n.paused)
			n.requireLine(t, append(c.want, "ERROR")...)
			require.Equal(t, c.astray, a.orders.Load() > 0)
		})
	}
}

// TestWrongClock has a clock that is far behind. The certificate is served: clients have clocks of their own.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	var n *node
	where, names := page(t, later(&n)), unique(t, 1)
	a := newAuthority(t, where, nil, long, false)
	n = open(t, a.config(t.TempDir(), names...))
	n.requireLine(t, "there is no certificate yet")
	n.now = func() time.Time { return time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC) }
	n.Start(where, nil)
	require.Equal(t, maxPause, <-n.paused)
	n.requireLine(t, "certificate issued")
	n.requireLine(t, "ERROR", "the clock says 1970-01-01 00:00:00 +0000 UTC: set the clock of this machine")
	a.shown(t, where, names[0])
	require.Equal(t, maxPause, n.again())
	require.EqualValues(t, 1, a.orders.Load(), "another certificate would be the same")
}

// TestSharedDirectory has two nodes with one name and one directory: one of them asks, and both have the certificate.
func TestSharedDirectory(t *testing.T) {
	t.Parallel()
	var one *node
	where, names, dir := page(t, later(&one)), unique(t, 1), t.TempDir()
	a := newAuthority(t, where, nil, long, false)
	one = open(t, a.config(dir, names...))
	two := open(t, a.config(dir, names...))
	for _, n := range []*node{one, two} {
		n.Start(where, nil)
		require.Equal(t, checkInterval, <-n.paused)
		n.requireLine(t, "there is no certificate yet")
		n.requireLine(t, "certificate issued")
	}
	require.EqualValues(t, 1, a.orders.Load())
	require.EqualValues(t, 1, a.accounts.Load())
	requireSame(t, one, two)

	// What one renews, the other takes.
	require.NoError(t, one.library.RenewCertSync(context.Background(), names[0], true))
	for _, n := range []*node{one, two} {
		require.Equal(t, checkInterval, n.again())
		n.requireLine(t, "certificate renewed")
	}
	require.EqualValues(t, 2, a.orders.Load())
	requireSame(t, one, two)
}

func requireSame(t *testing.T, one, two *node) {
	t.Helper()
	ours, err := one.Certificate(new(tls.ClientHelloInfo))
	require.NoError(t, err)
	theirs, err := two.Certificate(new(tls.ClientHelloInfo))
	require.NoError(t, err)
	require.Equal(t, ours.Certificate, theirs.Certificate)
}

// TestSharedDirectoryAtOnce has two nodes that start together: one waits for the other's lock. A lock that was not
// written for ten seconds counts as left behind, so a machine that stands still for so long would let both ask.
func TestSharedDirectoryAtOnce(t *testing.T) {
	thorough.Only(t)
	t.Parallel()
	var one *node
	where, names, dir := page(t, later(&one)), unique(t, 1), t.TempDir()
	a := newAuthority(t, where, nil, long, false)
	one = open(t, a.config(dir, names...))
	two := open(t, a.config(dir, names...))
	for _, n := range []*node{one, two} {
		n.Start(where, nil)
	}
	for _, n := range []*node{one, two} {
		require.Equal(t, checkInterval, <-n.paused)
	}
	require.EqualValues(t, 1, a.orders.Load())
	requireSame(t, one, two)
}

// TestStrangersAskForChallenges asks for the answer to a challenge that does not exist.
func TestStrangersAskForChallenges(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Names: []string{"a.example"}, Directory: "https://127.0.0.1/dir", Dir: t.TempDir()})
	where := page(t, n.Certificate)
	for _, name := range []string{"b.example", "a.example"} {
		_, err := tls.Dial("tcp", where.String(), &tls.Config{
			ServerName: name, NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true,
		})
		require.ErrorContains(t, err, "internal error")
	}
}

// TestOpenFails expects mistakes to be named at once.
func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	_, err := Open(Config{Dir: filepath.Join(file, "below")})
	require.ErrorContains(t, err, "not a directory")
	_, err = Open(Config{Dir: t.TempDir(), RootFile: file})
	require.ErrorContains(t, err, file+" has no PEM certificate")
	_, err = Open(Config{Dir: t.TempDir(), RootFile: file + "2"})
	require.ErrorIs(t, err, os.ErrNotExist)

	// Files that are not what they should be.
	dir := t.TempDir()
	cfg := Config{Names: []string{"a.example"}, Directory: "https://127.0.0.1/dir", Dir: dir}
	n := open(t, cfg)
	storage, key := n.library.Storage, n.issuer.IssuerKey()
	for path, text := range map[string]string{
		certmagic.StorageKeys.SiteCert(key, "a.example"): "no", certmagic.StorageKeys.SiteMeta(key, "a.example"): "{}",
		certmagic.StorageKeys.SitePrivateKey(key, "a.example"): "no",
	} {
		require.NoError(t, storage.Store(context.Background(), path, []byte(text)))
	}
	_, err = Open(cfg)
	require.ErrorContains(t, err, "certificate of a.example in "+dir)

	files := certtest.New(t).Issue(t) // for addresses
	for path, from := range map[string]string{
		certmagic.StorageKeys.SiteCert(key, "a.example"):       files.Cert,
		certmagic.StorageKeys.SitePrivateKey(key, "a.example"): files.Key,
	} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, storage.Store(context.Background(), path, text))
	}
	_, err = Open(cfg)
	require.ErrorContains(t, err, "has another name")
}

func TestPauses(t *testing.T) {
	other, limited := errors.New("other"), acme.Problem{Type: acme.ProblemTypeRateLimited}
	var all []time.Duration
	for n := range 8 {
		all = append(all, pause(other, n))
	}
	require.Equal(t, []time.Duration{
		time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute, 81 * time.Minute, 243 * time.Minute,
		maxPause, maxPause,
	}, all)
	require.Equal(t, maxPause, pause(other, 1<<30))
	require.Equal(t, limitedPause, pause(limited, 0))
	require.Equal(t, 81*time.Minute, pause(limited, 4))
	require.Equal(t, maxPause, pause(fmt.Errorf("wrapped: %w", errClock), 0))
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		problem acme.Problem
		want    string
	}{
		{acme.Problem{Type: acme.ProblemTypeUnauthorized, Resource: acme.Authorization{}}, "at TCP port 443"},
		{acme.Problem{Type: acme.ProblemTypeUnauthorized}, "refuses the account: .* makes a new one$"},
		{acme.Problem{Type: acme.ProblemTypeUserActionRequired}, "refuses the account"},
		{acme.Problem{Type: acme.ProblemTypeServerInternal, Detail: "oops"}, "oops$"},
	} {
		require.Regexp(t, c.want, explain(c.problem).Error())
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]string{
		"relay.example": "relay.example", "Relay.Example.": "relay.example", "bücher.example": "xn--bcher-kva.example",
		"localhost": "localhost",
	} {
		got, err := CheckName(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, name := range []string{
		"", ".", "*.example", "a..example", "a b.example", "a.example:443", "192.0.2.1", "::1", "-a.example",
		"a/b", "../x",
	} {
		_, err := CheckName(name)
		require.ErrorContains(t, err, "must be a host name such as relay.example", name)
	}
}
