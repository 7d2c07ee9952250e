package web

import (
	"bufio"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sluice/moqt"
	"sluice/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSite(t *testing.T, change ...func(*Config)) *Site {
	t.Helper()
	cfg := Config{Relay: Relay{Port: 4443, Version: "v1"}, SamePort: true}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	require.NoError(t, err)
	return s
}

// TestDrafts compares the drafts of the page with those of the relay from 18 on, which browsers may use.
func TestDrafts(t *testing.T) {
	source, err := os.ReadFile("src/moqt/draft.ts")
	require.NoError(t, err)
	var numbers []string
	for _, v := range moqt.Versions() {
		if v >= moqt.Draft18 {
			numbers = append(numbers, strings.TrimPrefix(v.ALPN(), "moqt-"))
		}
	}
	require.Contains(t, string(source), "const drafts: Draft[] = ["+strings.Join(numbers, ", ")+"];")
	slices.Reverse(numbers)
	require.Contains(t, string(source), "export type Draft = "+strings.Join(numbers, " | ")+";")
}

func ask(s http.Handler, method, url string, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, url, nil)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

// All scripts, styles and images that the pages name are there, and no page has any inline.
func TestPagesAreComplete(t *testing.T) {
	s := newSite(t)
	pages, err := dist.ReadDir("dist")
	require.NoError(t, err)
	checked := 0
	for _, page := range pages {
		if !strings.HasSuffix(page.Name(), ".html") {
			continue
		}
		text, err := dist.ReadFile("dist/" + page.Name())
		require.NoError(t, err)
		for _, forbidden := range []string{"<style", " style=", " onclick=", "http:", "https:"} {
			require.NotContains(t, string(text), forbidden, page.Name())
		}
		for _, part := range strings.Split(string(text), `"`) {
			if !strings.HasPrefix(part, "/assets/") {
				continue
			}
			got := ask(s, http.MethodGet, part)
			require.Equal(t, http.StatusOK, got.StatusCode, part)
			checked++
		}
	}
	require.Greater(t, checked, 2)
}

func TestHeaders(t *testing.T) {
	s := newSite(t)
	for _, url := range []string{"/", "/assets/style.css", "/relay.json", "/nowhere"} {
		h := ask(s, http.MethodGet, url).Header
		policy := h.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'; ", url)
		require.Contains(t, policy, "connect-src 'self'; ", url)
		require.Contains(t, policy, "frame-ancestors 'none'", url)
		require.NotContains(t, policy, "unsafe", url)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), url)
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"), url)
		require.Equal(t, "DENY", h.Get("X-Frame-Options"), url)
	}
	h := ask(s, http.MethodGet, framed).Header
	require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors *")
	require.Empty(t, h.Get("X-Frame-Options"))

}

// The page may go where the relay may send it.
func TestPolicyOfAnotherRelay(t *testing.T) {
	for url, want := range map[string]string{
		"moqt://other.example":          " https://other.example:443; ",
		"https://other.example:4443/in": " https://other.example:4443; ",
		"https://192.0.2.1:4443":        " https://*:4443; ",
		"https://*.example":             "connect-src 'self'; ",
	} {
		u, err := transport.ParseURL(url)
		require.NoError(t, err)
		s := newSite(t, func(c *Config) { c.SamePort, c.Other = true, u })
		require.Contains(t, ask(s, http.MethodGet, "/").Header.Get("Content-Security-Policy"), want, url)
	}
}

// The page connects to the relay only, at whatever port that is.
func TestPolicyOfSessions(t *testing.T) {
	for host, want := range map[string]string{
		"relay.example:8443":   "connect-src 'self' https://relay.example:4443; ",
		"relay.example":        "connect-src 'self' https://relay.example:4443; ",
		"127.0.0.1:8443":       "connect-src 'self' https://127.0.0.1:4443; ",
		"192.0.2.1:8443":       "connect-src 'self' https://*:4443; ",
		"[2001:db8::1]:8443":   "connect-src 'self' https://*:4443; ",
		"":                     "connect-src 'self'; ",
		"*:8443":               "connect-src 'self'; ",
		"*.example":            "connect-src 'self'; ",
		"a; script-src *":      "connect-src 'self'; ",
		"a https://b.example":  "connect-src 'self'; ",
		"a@b.example":          "connect-src 'self'; ",
		"a/b, default-src *:1": "connect-src 'self'; ",
	} {
		for _, samePort := range []bool{false, true} {
			s := newSite(t, func(c *Config) { c.SamePort = samePort })
			got := ask(s, http.MethodGet, "/", func(r *http.Request) { r.Host = host })
			if samePort {
				want = "connect-src 'self'; "
			}
			require.Contains(t, got.Header.Get("Content-Security-Policy"), want, host)
			require.Len(t, got.Header.Values("Content-Security-Policy"), 1)
		}
	}
}

// HTTP/3 is announced where it has the same page, and browsers take its certificate.
func TestHTTP3IsAnnounced(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Config)
		proto  int
		plain  bool
		want   string
	}{
		"HTTP/2":       {proto: 2, want: `h3=":4443"; ma=86400`},
		"HTTP/3":       {proto: 3},
		"without TLS":  {proto: 1, plain: true},
		"another port": {proto: 2, change: func(c *Config) { c.SamePort = false }},
		"--dev":        {proto: 2, change: func(c *Config) { c.Certificate = "ab" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if tt.change != nil {
				s = newSite(t, tt.change)
			}
			got := ask(s, http.MethodGet, "/", func(r *http.Request) {
				r.ProtoMajor = tt.proto
				if !tt.plain {
					r.TLS = new(tls.ConnectionState)
				}
			})
			require.Equal(t, tt.want, got.Header.Get("Alt-Svc"))
		})
	}
}

func TestFilesArePacked(t *testing.T) {
	s := newSite(t)
	plain := body(t, ask(s, http.MethodGet, "/assets/style.css"))
	packed := ask(s, http.MethodGet, "/assets/style.css", func(r *http.Request) {
		r.Header.Set("Accept-Encoding", "br, gzip")
	})
	require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(packed.Body)
	require.NoError(t, err)
	unpacked, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, plain, string(unpacked))
	require.Equal(t, "text/css; charset=utf-8", packed.Header.Get("Content-Type"))
	again := ask(s, http.MethodGet, "/assets/style.css", func(r *http.Request) {
		r.Header.Set("If-None-Match", packed.Header.Get("ETag"))
	})
	require.Equal(t, http.StatusNotModified, again.StatusCode)
}

func TestOnlyReads(t *testing.T) {
	s := newSite(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		require.Equal(t, http.StatusMethodNotAllowed, ask(s, method, "/").StatusCode, method)
	}
	withBody := ask(s, http.MethodGet, "/", func(r *http.Request) { r.ContentLength = 1 })
	require.Equal(t, http.StatusRequestEntityTooLarge, withBody.StatusCode)
	require.Equal(t, "close", withBody.Header.Get("Connection"))
	require.Equal(t, http.StatusNotFound, ask(s, http.MethodGet, "/assets/web.go").StatusCode)
	require.Equal(t, http.StatusNotFound, ask(s, http.MethodGet, "/inside").StatusCode, "not for everybody")
}

func TestRelayAndCertificate(t *testing.T) {
	s := newSite(t)
	relay := ask(s, http.MethodGet, "/relay.json")
	require.Equal(t, "application/json", relay.Header.Get("Content-Type"))
	require.JSONEq(t, `{"port":4443,"viewers":false,"version":"v1"}`, body(t, relay))
	require.Equal(t, http.StatusNotFound, ask(s, http.MethodGet, "/certificate.sha256").StatusCode)
	require.Equal(t, http.StatusNotFound, ask(s, http.MethodGet, "/viewers?field=a").StatusCode)

	dev := newSite(t, func(c *Config) { c.Certificate = "abcd" })
	require.Equal(t, "abcd", body(t, ask(dev, http.MethodGet, "/certificate.sha256")))
}

func TestViewers(t *testing.T) {
	var asked moqt.Namespace
	var at string
	s := newSite(t, func(c *Config) {
		c.CountViewers = func(authority string, ns moqt.Namespace) int { at, asked = authority, ns; return 3 }
	})
	require.JSONEq(t, `{"viewers":3}`, body(t, ask(s, http.MethodGet, "/viewers?field=live&field=a%2Fb")))
	require.Equal(t, moqt.Namespace{"live", "a/b"}, asked)
	for _, wrong := range []string{"", "?field=", "?field=" + strings.Repeat("x", 5000)} {
		require.Equal(t, http.StatusBadRequest, ask(s, http.MethodGet, "/viewers"+wrong).StatusCode, wrong)
	}
	for host, want := range map[string]string{
		"relay.example": "relay.example:4443", "relay.example:8443": "relay.example:4443", "[::1]:8443": "[::1]:4443",
	} {
		ask(s, http.MethodGet, "/viewers?field=a", func(r *http.Request) { r.Host = host })
		require.Equal(t, want, at)
	}
}

// No source takes the answers of others, and all together get no more than the limit for all.
func TestLimitsOfViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, func(c *Config) { c.CountViewers = func(string, moqt.Namespace) int { return 0 } })
		answers := func(format string, n int) (answered int) {
			for i := range n {
				from := func(r *http.Request) { r.RemoteAddr = fmt.Sprintf(format, i) }
				if ask(s, http.MethodGet, "/viewers?field=a", from).StatusCode == http.StatusOK {
					answered++
				}
			}
			return answered
		}
		require.Equal(t, viewersPerSecondSource, answers("192.0.2.1:%d", 3*viewersPerSecond))
		require.Equal(t, viewersPerSecondSource, answers("[2001:db8::%x]:1", 3*viewersPerSecond), "a /64 is one")
		require.Equal(t, viewersPerSecond-2*viewersPerSecondSource, answers("[2001:db8:%x::1]:1", 2*maxViewersSources))
		require.Equal(t, maxViewersSources, s.viewers.of.Len())
		time.Sleep(time.Second)
		require.Equal(t, 1, answers("192.0.2.1:%d", 1), "a second later")
	})
}

// served is a Site on a port of the loopback interface.
func served(t *testing.T, change func(*ServerConfig)) *Server {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := ServerConfig{
		Site: newSite(t), Logger: slog.New(slog.DiscardHandler),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil },
	}
	if change != nil {
		change(&cfg)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := Serve(l, cfg)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func get(t *testing.T, url string, http2 bool) (*http.Response, error) {
	t.Helper()
	tr := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	client := &http.Client{Transport: tr, Timeout: 10 * time.Second}
	r, err := client.Get(url)
	if err == nil {
		t.Cleanup(func() { r.Body.Close() })
	}
	return r, err
}

func TestServe(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := served(t, func(c *ServerConfig) { c.Plain = plain })
		for _, http2 := range []bool{false, true} {
			r, err := get(t, "https://"+s.Addr().String()+"/", http2)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, r.StatusCode)
			require.Equal(t, http2, r.ProtoMajor == 2)
		}
		r, err := get(t, "http://"+s.Addr().String()+"/", false)
		require.NoError(t, err)
		if plain {
			require.Equal(t, http.StatusOK, r.StatusCode)
		} else {
			require.Equal(t, http.StatusBadRequest, r.StatusCode)
			require.Contains(t, body(t, r), "HTTP request to an HTTPS server")
		}
	}
}

// fakeListener has connections that seem to come from anywhere.
type fakeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l *fakeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

type fakeConn struct {
	net.Conn
	remote string
}

func (c fakeConn) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", c.remote)
	return addr
}

// Only clients on this machine may do without TLS.
func TestPlainIsForThisMachine(t *testing.T) {
	from := &fakeListener{conns: make(chan net.Conn)}
	from.Listener, _ = net.Listen("tcp", "127.0.0.1:0")
	defer from.Listener.Close()
	s := newSorter(from)
	done := make(chan struct{})
	go func() { defer close(done); s.run() }()
	for remote, want := range map[string]*sorted{
		"127.0.0.1:1": s.plain, "[::1]:1": s.plain, "[::ffff:127.0.0.1]:1": s.plain, "192.0.2.1:1": s.tls,
		"[2001:db8::1]:1": s.tls,
	} {
		ours, theirs := net.Pipe()
		from.conns <- fakeConn{theirs, remote}
		go fmt.Fprint(ours, "GET / HTTP/1.1\r\n")
		c, err := want.Accept()
		require.NoError(t, err)
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "GET / HTTP/1.1\r\n", line, "nothing is lost")
		require.NoError(t, ours.Close())
	}
	close(from.conns)
	<-done
}

// A connection that cannot be accepted, as while too many files are open, does not end the page.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &failingListener{fails: 3}
		from.conns = make(chan net.Conn, 1)
		s := newSorter(from)
		ours, theirs := net.Pipe()
		defer ours.Close()
		from.conns <- fakeConn{theirs, "192.0.2.1:1"}
		done := make(chan struct{})
		go func() { defer close(done); s.run() }()
		c, err := s.tls.Accept()
		require.NoError(t, err)
		require.NoError(t, c.Close())
		close(from.conns)
		<-done
	})
}

// failingListener fails a few times.
type failingListener struct {
	fakeListener
	fails int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.fails > 0 {
		l.fails--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.fakeListener.Accept()
}

func (l *failingListener) Addr() net.Addr { return nil }
func (l *failingListener) Close() error   { return nil }

// A client that says nothing holds up neither the others nor the end.
func TestSilentClient(t *testing.T) {
	s := served(t, func(c *ServerConfig) { c.Plain = true })
	silent, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	r, err := get(t, "http://"+s.Addr().String()+"/relay.json", false)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode)
}

func TestLimitsOfConnections(t *testing.T) {
	for limit, change := range map[string]func(*ServerConfig){
		"total":   func(c *ServerConfig) { c.MaxConnections = 2 },
		"address": func(c *ServerConfig) { c.MaxConnectionsPerSource = 2 },
	} {
		s := served(t, change)
		var open []net.Conn
		for range 2 {
			c, err := net.Dial("tcp", s.Addr().String())
			require.NoError(t, err)
			open = append(open, c)
		}
		require.Eventually(t, func() bool {
			_, err := get(t, "https://"+s.Addr().String()+"/", false)
			return err != nil
		}, time.Minute, time.Millisecond)
		total, source := s.listener.Refused()
		require.Equal(t, limit == "total", total > 0)
		require.Equal(t, limit == "address", source > 0)
		for _, c := range open {
			require.NoError(t, c.Close())
		}
		require.Eventually(t, func() bool {
			r, err := get(t, "https://"+s.Addr().String()+"/", false)
			return err == nil && r.StatusCode == http.StatusOK
		}, time.Minute, 10*time.Millisecond, "room again")
	}
}
