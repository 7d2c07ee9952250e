package server

import (
	"cmp"
	"context"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/auth"
	"sluice/internal/logs/logstest"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// behind starts a server whose upstream relays are others.
func behind(t *testing.T, cfg Config, scheme string, upstreams ...*Server) *Server {
	t.Helper()
	var urls []string
	for _, u := range upstreams {
		urls = append(urls, scheme+"://"+u.Addr().String()+"/app")
	}
	cfg.Upstream.Routes = append(cfg.Upstream.Routes, UpstreamRoute{URLs: urls})
	cfg.Upstream.Transport.Insecure = cfg.Upstream.Transport.CAFile == ""
	return start(t, cfg)
}

// connected waits until a server has so many sessions with upstream relays.
func connected(t *testing.T, s *Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(upstreamSessions(s)) == n }, time.Minute, 5*time.Millisecond)
}

// upstreamSessions returns the open sessions with upstream relays that have a round-trip time: they are established.
func upstreamSessions(s *Server) (open []relay.SessionStatus) {
	for _, st := range s.relay.Sessions() {
		if st.Upstream != "" && st.Ended == nil {
			open = append(open, st)
		}
	}
	return open
}

// await returns the contents of the next stream.
func (c streams) await(t *testing.T) []byte {
	t.Helper()
	select {
	case b := <-c:
		return b
	case <-time.After(time.Minute):
		require.Fail(t, "an object is missing")
		return nil
	}
}

// running is a server that a test ends.
type running struct {
	*Server
	stop   func()
	served chan error
}

func serve(t *testing.T, cfg Config) *running {
	t.Helper()
	onNetwork(t, &cfg.Transport)
	s, err := Listen(cfg)
	require.NoError(t, err)
	return run(s)
}

func run(s *Server) *running {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{s, stop, make(chan error, 1)}
	go func() { r.served <- s.Serve(ctx) }()
	return r
}

func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	require.NoError(t, <-r.served)
	require.NoError(t, r.Drain("", time.Second))
}

// TestHostsOfGoaway checks where an upstream relay may send this one.
func TestHostsOfGoaway(t *testing.T) {
	for _, c := range []struct {
		allowed []string
		named   string
		want    string // empty: the relay's own URL
	}{
		{nil, "moqt://origin.example:444/new", "moqt://origin.example:444/new"},
		{nil, "https://ORIGIN.example", "https://ORIGIN.example"},
		{nil, "moqt://origin.example.evil.example", ""},
		{nil, "moqt://evil.example/origin.example", ""},
		{nil, "moqt://origin.example@evil.example", ""},
		{nil, "moqt://192.0.2.1", ""},
		{nil, "http://origin.example", ""},
		{nil, "*", ""},
		{[]string{"next.example"}, "moqt://next.example", "moqt://next.example"},
		{[]string{"next.example"}, "moqt://evil.example", ""},
		{[]string{"next.example"}, "moqt://origin.example", "moqt://origin.example"},
		{[]string{"*"}, "moqt://evil.example", "moqt://evil.example"},
		{[]string{"*"}, "http://evil.example", ""},
	} {
		const own = "moqt://origin.example/app?token=x"
		cfg := UpstreamConfig{GoawayHosts: c.allowed}
		k := &keeper{url: own, mayMove: cfg.mayMove, log: slog.New(slog.DiscardHandler)}
		require.Equal(t, cmp.Or(c.want, own), k.follow(c.named), c.named)
		k.mayMove = nil
		require.Equal(t, own, k.follow(c.named), c.named)
	}
}

// TestUpstreamWithAWrongCertificate expects one line that says what to do, however often the server tries.
func TestUpstreamWithAWrongCertificate(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var log logstest.Buffer
		origin := start(t, Config{})
		edge := behind(t, Config{
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
			Upstream: UpstreamConfig{Transport: transport.ClientConfig{CAFile: writeCA(t)}},
		}, "moqt", origin)
		const line = "no session with the upstream relay"
		await(t, line, func() bool { return strings.Contains(log.String(), line) })
		time.Sleep(time.Second) // it tries again meanwhile
		require.Equal(t, 1, strings.Count(log.String(), line))
		require.Contains(t, log.String(), "certificate is not trusted: name its authority")
		_, err := join(t, edge, nil).TrackStatus(t.Context(), moqt.TrackStatus{
			Track: moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: "video"},
		})
		require.ErrorContains(t, err, "DOES_NOT_EXIST")
	})
}

// writeCA writes the certificate of an authority that has signed nothing.
func writeCA(t *testing.T) (file string) {
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "ca.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	require.NoError(t, os.WriteFile(file, b, 0o600))
	return file
}

// TestUpstreamToken has an upstream relay that asks for a token.
func TestUpstreamToken(t *testing.T) {
	virtual(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(file, []byte("secret subscribe live\n* publish live\n"), 0o600))
		tokens, err := auth.OpenTokenFile(file, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		origin := start(t, Config{Relay: relay.Config{Authorizer: tokens}})
		publish(t, origin, "video")
		for token, want := range map[string]string{"secret": "", "wrong": "UNAUTHORIZED"} {
			edge := behind(t, Config{Upstream: UpstreamConfig{
				Tokens: []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(token)}},
			}}, "moqt", origin)
			sub, err := join(t, edge, nil).Subscribe(t.Context(), moqt.Subscribe{
				Track: moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: "video"},
			}, make(streams, 1))
			require.NoError(t, err)
			if _, err = sub.Wait(t.Context()); want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		}
	})
}

func TestUpstreamConfigIsChecked(t *testing.T) {
	for want, r := range map[string]UpstreamRoute{
		"at least one URL is required": {Prefix: moqt.Namespace{"live"}},
		"must be moqt://":              {URLs: []string{"http://origin"}},
	} {
		_, err := Listen(Config{Upstream: UpstreamConfig{Routes: []UpstreamRoute{r}}})
		require.ErrorContains(t, err, want)
	}
}
