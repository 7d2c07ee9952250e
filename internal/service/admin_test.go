package service

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAdminHosts calls the admin address by names. A web page whose name was made to resolve to this machine gets
// nothing.
func TestAdminHosts(t *testing.T) {
	a, err := ListenAdmin(AdminConfig{
		Flag: "--admin", Addr: "127.0.0.1:0", Hosts: []string{"relay.internal"}, Profiles: true,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	a.SetReady(true)
	for host, want := range map[string]int{
		"127.0.0.1:4480":        http.StatusOK,
		"192.0.2.1":             http.StatusOK,
		"[::1]:4480":            http.StatusOK,
		"[2001:db8::1]":         http.StatusOK,
		"localhost":             http.StatusOK,
		"LocalHost:4480":        http.StatusOK,
		"relay.internal:4480":   http.StatusOK,
		"page.example":          http.StatusMisdirectedRequest,
		"page.example:4480":     http.StatusMisdirectedRequest,
		"127.0.0.1.example:80":  http.StatusMisdirectedRequest,
		"localhost.example":     http.StatusMisdirectedRequest,
		"x.relay.internal:4480": http.StatusMisdirectedRequest,
		"2130706433":            http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/symbol"} {
			url := "http://" + a.listener.Addr().String() + path
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			require.NoError(t, err)
			req.Host = host
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode, "%s at %s", path, host)
			if want != http.StatusOK {
				require.Contains(t, string(text), "must be an address, localhost, or a name that")
				require.Contains(t, string(text), "--admin-host")
			}
		}
	}
}

// TestHealth makes a process hang, and go on.
func TestHealth(t *testing.T) {
	alive := false
	l := make(pipeListener)
	a := NewAdmin(l, AdminConfig{Flag: "--admin", Alive: func() bool { return alive }})
	defer func() { require.NoError(t, a.Close()) }()
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		w := httptest.NewRecorder()
		a.Mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		require.Equal(t, want, w.Code)
		alive = true
	}
}

// TestReadiness has a process that serves wait for something else.
func TestReadiness(t *testing.T) {
	awaited := "waiting for keys"
	l := make(pipeListener)
	a := NewAdmin(l, AdminConfig{Flag: "--admin", Awaits: func() string { return awaited }})
	defer func() { require.NoError(t, a.Close()) }()
	for _, want := range []string{"draining", awaited, "ready"} {
		w := httptest.NewRecorder()
		a.Mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		require.Equal(t, want+"\n", w.Body.String())
		require.Equal(t, want == "ready", w.Code == http.StatusOK)
		if want == awaited {
			awaited = ""
		}
		a.SetReady(true)
	}
}

// pipeListener accepts connections in memory, whose timeouts follow the clock of a test.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l pipeListener) Close() error {
	close(l)
	return nil
}

func (l pipeListener) Addr() net.Addr { return new(net.TCPAddr) }

// TestAdminLimits sends requests that hold a server up. The server ends each of these connections by itself.
func TestAdminLimits(t *testing.T) {
	const get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
	for name, test := range map[string]struct {
		request string
		wait    time.Duration // before the client reads
		want    string        // in the answer; "" for none
	}{
		"silence":              {"", 0, ""},
		"half a header":        {get, 0, ""},
		"no second request":    {get + "\r\n", 0, "200 OK"},
		"an answer not read":   {get + "\r\n", 2 * adminWriteTimeout, ""},
		"a body that is late":  {get + "Content-Length: 5\r\n\r\n", 0, "413 Request Entity"},
		"a body without end":   {get + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 0, "413 Request Entity"},
		"a header without end": {get + "X: " + strings.Repeat("x", 2*adminHeaderBytes), 0, "431 Request Header"},
		"HTTP/1.0 and no host": {"GET /healthz HTTP/1.0\r\n\r\n", 0, "200 OK"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := make(pipeListener)
				a := NewAdmin(l, AdminConfig{Flag: "--admin"})
				client, server := net.Pipe()
				l <- server
				go func() { _, _ = io.WriteString(client, test.request) }() // the server may read less
				time.Sleep(test.wait)
				answer, err := io.ReadAll(client)
				require.NoError(t, err)
				if test.want == "" {
					require.Empty(t, answer)
				} else {
					require.Contains(t, string(answer), test.want)
				}
				require.NoError(t, client.Close())
				require.NoError(t, a.Close())
			})
		})
	}
}

// TestAdminConnections opens more connections than are served at a time: the last one is accepted when another ends.
func TestAdminConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipeListener)
		a := NewAdmin(l, AdminConfig{Flag: "--admin"})
		var clients []net.Conn
		for range adminConnections {
			client, server := net.Pipe()
			l <- server
			clients = append(clients, client)
		}
		synctest.Wait()
		client, server := net.Pipe()
		select {
		case l <- server:
			require.Fail(t, "one connection too many was accepted")
		default:
		}
		require.NoError(t, clients[0].Close())
		l <- server
		for _, c := range append(clients[1:], client) {
			require.NoError(t, c.Close())
		}
		require.NoError(t, a.Close())
	})
}
