package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"sluice/web"
)

func TestMain(m *testing.M) {
	// Pebble waits before it looks, and refuses some requests, unless these say no.
	if err := os.Setenv("PEBBLE_VA_NOSLEEP", "1"); err != nil {
		panic(err)
	}
	if err := os.Setenv("PEBBLE_WFE_NONCEREJECT", "0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	long  = 90 * 24 * time.Hour
	short = 4 * checkInterval // so short that it is renewed whenever it is looked at
)

// authority is Pebble behind a front that can refuse requests. All names have the address 127.0.0.1 for it.
type authority struct {
	*httptest.Server
	rootFile string
	roots    *x509.CertPool
	refuse   atomic.Pointer[http.HandlerFunc] // nil: nothing is refused
	accounts atomic.Int32
	orders   atomic.Int32
	number   int32
}

// authorities counts the authorities of the process. The library remembers directories by their URL, also when another
// authority has the port.
var authorities atomic.Int32

// newAuthority starts an authority that looks at two ports, and issues certificates for a time.
func newAuthority(t *testing.T, page, plain *net.TCPAddr, validity time.Duration, needsCustomers bool) *authority {
	quiet := log.New(io.Discard, "", 0)
	names, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	resolver := &dns.Server{Listener: names, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			a.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{
				Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET,
			}, A: net.IPv4(127, 0, 0, 1)}}
		}
		_ = w.WriteMsg(a)
	})}
	up := make(chan struct{})
	resolver.NotifyStartedFunc = func() { close(up) }
	go func() { _ = resolver.ActivateAndServe() }()
	<-up
	t.Cleanup(func() { _ = resolver.Shutdown() })

	store := db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {ValidityPeriod: uint64(validity / time.Second)}}
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, profiles)
	look := va.New(quiet, portOf(plain), portOf(page), false, names.Addr().String(), store)
	front := wfe.New(quiet, store, look, issuer, []string{"pebble"}, false, needsCustomers, 0, 0)
	handler := front.Handler()
	a := &authority{roots: x509.NewCertPool(), number: authorities.Add(1)}
	a.roots.AddCert(issuer.GetRootCert(0).Cert)
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse := a.refuse.Load(); refuse != nil {
			(*refuse)(w, r)
			return
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/sign-me-up"):
			a.accounts.Add(1)
		case strings.HasPrefix(r.URL.Path, "/order-plz"):
			a.orders.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	a.Config.ErrorLog = quiet
	t.Cleanup(a.Close)
	a.rootFile = filepath.Join(t.TempDir(), "root.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	require.NoError(t, os.WriteFile(a.rootFile, text, 0o600))
	return a
}

func portOf(a *net.TCPAddr) int {
	if a == nil {
		return 1 // where nobody listens
	}
	return a.Port
}

func (a *authority) config(dir string, names ...string) Config {
	return Config{Names: names, Directory: fmt.Sprintf("%s/dir?%d", a.URL, a.number), RootFile: a.rootFile, Dir: dir}
}

func (a *authority) refuseAll(h http.HandlerFunc) { a.refuse.Store(&h) }

// node is a relay's part: a Manager with a web page, whose pauses end when the test wants.
type node struct {
	*Manager
	lines  chan string        // its log
	paused chan time.Duration // it has looked, and looks again after that
	resume chan struct{}
}

// open opens a Manager.
func open(t *testing.T, cfg Config) *node {
	n := &node{lines: make(chan string, 100), paused: make(chan time.Duration), resume: make(chan struct{})}
	cfg.Logger = slog.New(slog.NewTextHandler(n, nil))
	var err error
	n.Manager, err = Open(cfg)
	require.NoError(t, err)
	n.sleep = func(ctx context.Context, d time.Duration) {
		select {
		case n.paused <- d:
		case <-ctx.Done():
			return
		}
		select {
		case <-n.resume:
		case <-ctx.Done():
		}
	}
	t.Cleanup(n.Close)
	return n
}

// Write implements [io.Writer] for the log.
func (n *node) Write(line []byte) (int, error) {
	n.lines <- string(line)
	return len(line), nil
}

// requireLine expects the next line of the log to have all texts.
func (n *node) requireLine(t *testing.T, texts ...string) {
	t.Helper()
	line := <-n.lines
	for _, text := range texts {
		require.Contains(t, line, text)
	}
}

func (n *node) requireQuiet(t *testing.T) {
	t.Helper()
	require.Empty(t, n.lines)
}

// again has it look once more, and returns the pause after that.
func (n *node) again() time.Duration {
	n.resume <- struct{}{}
	return <-n.paused
}

// page is a web page's port. get is what its server shows.
func page(t *testing.T, get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *net.TCPAddr {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := web.Serve(l, web.ServerConfig{
		Site: http.NotFoundHandler(), Certificate: get, Challenges: true, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s.Addr()
}

// shown returns the certificate that a client gets who asks for a name and trusts the authority.
func (a *authority) shown(t *testing.T, page *net.TCPAddr, name string) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", page.String(), &tls.Config{ServerName: name, RootCAs: a.roots})
	require.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// unique returns names of their own for each test: challenges of the whole process are known by name.
func unique(t *testing.T, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d.example", strings.ToLower(t.Name()), i))
	}
	return names
}
