package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/server"
	"sluice/server/acme"
	"sluice/transport"
)

func TestACMEFlags(t *testing.T) {
	requireMistakes(t, map[string]string{
		"--acme=relay.example":                      "",
		"--acme=a.example,b.example":                "",
		"--acme=a.example --acme=b.example":         "",
		"--acme=*.example":                          `--acme: "*.example": must be a host name`,
		"--acme=a.example,192.0.2.1":                `--acme: "192.0.2.1": must be a host name`,
		"--acme=a.example --dev":                    `--acme: ["a.example"]: must not be set together with --tls-cert`,
		"--acme=a.example --tls-cert=c --tls-key=k": `--acme: ["a.example"]: must not be set together with --tls-cert`,
		"--acme=a.example --acme-ca=http://b":       `--acme-ca: "http://b": must be the https URL`,
		"--acme=a.example --acme-ca=b":              `--acme-ca: "b": must be the https URL`,
		"--acme=a.example --acme-http=80":           `--acme-http: "80": must be an address such as :80`,
		"--acme=a.example --web=off":                "--web: off: must be on with --acme, unless",
		"--acme=a.example --web=off --acme-http=:8": "",
		"--dev --acme-ca=b":                         "", // settings for another day
	})
}

// startACME starts a relay whose certificates come from a directory; its authority does not exist.
func startACME(t *testing.T, dir string) (*server.Server, companions, error) {
	f, _ := parse(t,
		"--acme", "localhost", "--acme-ca", "https://127.0.0.1:1/dir", "--acme-dir", dir, "--listen", "127.0.0.1:0",
		"--web", "127.0.0.1:0", "--fastpath", "off", "--rtsps", "127.0.0.1:0", "--rtsps-rtp", "")
	require.NoError(t, f.check())
	cfg, err := f.config(os.Getenv)
	require.NoError(t, err)
	_, err = f.takeOver(&cfg)
	require.NoError(t, err)
	f.addSite(&cfg, nil)
	s, err := server.Listen(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	beside, err := f.serveCompanions(s)
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
		require.NoError(t, s.Drain("", 0))
		require.NoError(t, beside.close())
	})
	return s, beside, err
}

// storeCertificate puts a certificate where an authority's would be, and returns a file with those to trust.
func storeCertificate(t *testing.T, dir string) (roots string, cert *x509.Certificate) {
	made, err := transport.SelfSignedCertificate(24 * time.Hour)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	require.NoError(t, err)
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})
	storage, authority := certmagic.FileStorage{Path: dir}, "127.0.0.1-1-dir"
	for path, text := range map[string][]byte{
		certmagic.StorageKeys.SiteCert(authority, "localhost"):       chain,
		certmagic.StorageKeys.SitePrivateKey(authority, "localhost"): key,
		certmagic.StorageKeys.SiteMeta(authority, "localhost"):       []byte("{}"),
	} {
		require.NoError(t, storage.Store(t.Context(), path, text))
	}
	roots = filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(roots, chain, 0o600))
	cert, err = x509.ParseCertificate(made.Certificate[0])
	require.NoError(t, err)
	return roots, cert
}

// endOf returns the first metric of a relay about the ends of certificates.
func endOf(t *testing.T, s *server.Server, names ...string) float64 {
	var m dto.Metric
	require.NoError(t, certificateEnds(s.Certificate, names)[0].(prometheus.Metric).Write(&m))
	return m.GetGauge().GetValue()
}

// TestACMECertificate expects all ports to show a certificate that is stored, though the authority does not answer.
func TestACMECertificate(t *testing.T) {
	dir := t.TempDir()
	roots, want := storeCertificate(t, dir)
	s, beside, err := startACME(t, dir)
	require.NoError(t, err)
	for _, scheme := range []string{"moqt", "https"} {
		conn, err := transport.Dial(t.Context(), scheme+"://"+s.Addr().String(), transport.ClientConfig{
			Protocols: moqt.ALPNs(), CAFile: roots,
		})
		require.NoError(t, err)
		require.NoError(t, conn.CloseWithError(0, ""))
	}
	pool := x509.NewCertPool()
	pool.AddCert(want)
	for _, addr := range []net.Addr{beside.page.Addr(), beside.rtsp.TLSAddr()} {
		conn, err := tls.Dial("tcp", addr.String(), &tls.Config{ServerName: "localhost", RootCAs: pool})
		require.NoError(t, err)
		require.True(t, want.Equal(conn.ConnectionState().PeerCertificates[0]))
		require.NoError(t, conn.Close())
	}
	end := float64(want.NotAfter.Unix())
	_, err = tls.Dial("tcp", beside.page.Addr().String(), &tls.Config{ // as the authority does, but unasked
		ServerName: "localhost", NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true,
	})
	require.ErrorContains(t, err, "internal error")
	for i, want := range []float64{end, 0, end} {
		names := [][]string{{"localhost"}, {"other.example"}, nil}[i]
		require.Equal(t, want, endOf(t, s, names...), names)
	}
}

// TestACMEWithoutCertificate expects a relay to start, and its clients to fail.
func TestACMEWithoutCertificate(t *testing.T) {
	s, beside, err := startACME(t, t.TempDir())
	require.NoError(t, err)
	require.Zero(t, endOf(t, s))
	_, err = transport.Dial(t.Context(), "moqt://"+s.Addr().String(), transport.ClientConfig{
		Protocols: moqt.ALPNs(), Insecure: true,
	})
	require.ErrorContains(t, err, "internal error")
	_, err = tls.Dial("tcp", beside.page.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	require.ErrorContains(t, err, "internal error")
}

// TestACMENeedsAPort expects an error where the authority could look nowhere.
func TestACMENeedsAPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	var f relayFlags
	f.acme.manager, err = acme.Open(acme.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	_, err = f.serveACME(nil)
	require.ErrorContains(t, err, "--acme: the authority has no TCP port to look at: free the port of the web page")
	f.acme.http = taken.Addr().String()
	_, err = f.serveACME(nil)
	require.ErrorContains(t, err, "--acme-http: ")
}
