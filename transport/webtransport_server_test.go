package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
)

// dialQUIC makes a connection whose ALPN is alpn.
func (s *testServer) dialQUIC(t *testing.T, alpn string) *quic.Conn {
	t.Helper()
	listen := s.listenUDP
	if s.network == nil {
		listen = ListenUDP
	}
	conn, err := listen("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	tr := &quic.Transport{Conn: conn}
	qc, err := tr.Dial(testContext(t), s.Addr(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{alpn}},
		&quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		qc.CloseWithError(0, "")
		tr.Close()
		conn.Close()
	})
	return qc
}

// dialWT makes an HTTP/3 connection on which WebTransport sessions can be opened.
func (s *testServer) dialWT(t *testing.T, protocols ...string) *webtransport.ClientConn {
	t.Helper()
	tr := &webtransport.Transport{ApplicationProtocols: protocols}
	cc, err := tr.NewClientConn(s.dialQUIC(t, http3.NextProtoH3))
	require.NoError(t, err)
	t.Cleanup(func() { tr.Close() })
	return cc
}

// TestOtherRequests sends requests to servers without pages and with some. The path is a session's, too.
func TestOtherRequests(t *testing.T) {
	for want, s := range map[string]*testServer{
		"404 404 page not found\n": newServer(t), "200 page /app": newServer(t, pages),
	} {
		cc := s.dialWT(t)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			status, text := request(t, cc, method, s.url(WebTransport))
			require.Equal(t, want, fmt.Sprintf("%d %s", status, text))
		}
		_, _, err := cc.Dial(testContext(t), s.url(WebTransport), nil)
		require.NoError(t, err)
		_, err = s.Accept(testContext(t))
		require.NoError(t, err)
	}
}

// request returns the status and the text of an answer.
func request(t *testing.T, cc *webtransport.ClientConn, method, url string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	rsp, err := cc.RoundTrip(req)
	require.NoError(t, err)
	defer rsp.Body.Close()
	b, err := io.ReadAll(rsp.Body)
	require.NoError(t, err)
	return rsp.StatusCode, string(b)
}

// TestQueriesAreNotLogged checks that neither end shows the query of a URL, which may hold a token: not even while it
// logs messages for debugging, or in the errors of connections that fail.
func TestQueriesAreNotLogged(t *testing.T) {
	var log logstest.Buffer
	s := newServer(t, func(c *ListenConfig) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	client, server := s.connect(t, WebTransport)
	require.Equal(t, "/app?q=1", server.Path())
	require.NoError(t, client.CloseWithError(0, ""))

	_, err := s.dial(t, WebTransport, func(c *ClientConfig) { c.Protocols = []string{"other"} })
	require.ErrorContains(t, err, "/app")
	require.NotContains(t, err.Error(), "q=1")
	_, err = s.dial(t, RawQUIC, func(c *ClientConfig) { c.Protocols = []string{"other"} })
	require.ErrorContains(t, err, "/app")
	require.NotContains(t, err.Error(), "q=1")
	require.NoError(t, s.Close())
	require.NotContains(t, log.String(), "q=1")

	below := slog.New(withoutRequests{s.log.Handler()}).With("a", 1).WithGroup("g")
	below.Debug("hidden")
	below.Error("shown", "b", 2)
	require.NotContains(t, log.String(), "hidden")
	require.Contains(t, log.String(), "msg=shown a=1 g.b=2")
}

func TestOneSessionPerConnection(t *testing.T) {
	s := newServer(t)
	cc := s.dialWT(t, testProtocol)
	_, _, err := cc.Dial(testContext(t), s.url(WebTransport), nil)
	require.NoError(t, err)
	server, err := s.Accept(testContext(t))
	require.NoError(t, err)
	rsp, _, err := cc.Dial(testContext(t), s.url(WebTransport), nil)
	require.Error(t, err)
	require.Equal(t, http.StatusTooManyRequests, rsp.StatusCode)
	require.NoError(t, server.Context().Err())
	_, err = server.OpenUniStream()
	require.NoError(t, err)
}

// TestOrigins has a server that any page may connect to, others for a list, and one of these with pages of its own.
func TestOrigins(t *testing.T) {
	list := func(c *ListenConfig) { c.Origins = []string{"https://player.example", "http://localhost:8080"} }
	open, closed, own := newServer(t), newServer(t, list), newServer(t, list, pages)
	for _, tt := range []struct {
		s      *testServer
		origin string
		status int
	}{
		{open, "https://anything.example", 200},
		{open, "", 200},
		{closed, "", 200}, // not a browser
		{closed, "https://player.example", 200},
		{closed, "http://localhost:8080", 200},
		{closed, "http://player.example", 403},
		{closed, "https://player.example.attacker.example", 403},
		{closed, "null", 403},
		{closed, "https://127.0.0.1:" + closed.port(), 403},
		{own, "https://127.0.0.1:" + own.port(), 200},
		{own, "http://127.0.0.1:" + own.port(), 403},
		{own, "https://player.example", 200},
		{own, "https://other.example", 403},
	} {
		header := http.Header{}
		if tt.origin != "" {
			header.Set("Origin", tt.origin)
		}
		rsp, _, _ := tt.s.dialWT(t, testProtocol).Dial(testContext(t), tt.s.url(WebTransport), header)
		require.NotNil(t, rsp)
		require.Equal(t, tt.status, rsp.StatusCode, tt.origin)
	}
}

func TestAvailableProtocols(t *testing.T) {
	s := newServer(t, func(c *ListenConfig) { c.Protocols = []string{"moqt-19", "moqt-18"} })
	for _, tt := range []struct {
		header string
		status int
		want   string
	}{
		{"", 200, "moqt-19"}, // an older browser
		{`"moqt-18"`, 200, "moqt-18"},
		{`"moqt-17", "moqt-18";a=1`, 200, "moqt-18"},
		{`"moqt-17"`, 400, ""},
		{`moqt-18`, 400, ""}, // a token
		{`("moqt-18")`, 400, ""},
		{`("moqt-17"), "moqt-18"`, 400, ""},
		{`"moqt-18`, 400, ""},
	} {
		header := http.Header{}
		if tt.header != "" {
			header.Set(availableProtocols, tt.header)
		}
		offered := []string{"moqt-18", "moqt-19"}
		if tt.header == "" {
			offered = nil // else the client would send a header of its own
		}
		rsp, _, _ := s.dialWT(t, offered...).Dial(testContext(t), s.url(WebTransport), header)
		require.NotNil(t, rsp)
		require.Equal(t, tt.status, rsp.StatusCode, tt.header)
		if tt.status == 200 {
			c, err := s.Accept(testContext(t))
			require.NoError(t, err)
			require.Equal(t, tt.want, c.Protocol())
		}
	}
}

// A peer that ends the CONNECT stream without a capsule, or breaks it, ends its session.
func TestConnectStreamEnds(t *testing.T) {
	s := newServer(t)
	_, other := s.connect(t, WebTransport)
	for _, tt := range []struct {
		name string
		end  func(*http3.RequestStream)
		lost string // or else it was closed
	}{
		{"FIN", func(str *http3.RequestStream) { str.Close() }, ""},
		{"RESET_STREAM", func(str *http3.RequestStream) { str.CancelWrite(0x10c) }, "H3_REQUEST_CANCELLED"},
		{"half a capsule", func(str *http3.RequestStream) { str.Write([]byte{0x68, 0x43, 10, 0}); str.Close() },
			"unexpected EOF"},
		{"a capsule of HTTP/2", func(str *http3.RequestStream) { str.Write([]byte("\x99\x0b\x4d\x3e\x00")) },
			"WT_MAX_STREAM_DATA"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := s.dialRaw(t, nil)
			c, err := s.Accept(testContext(t))
			require.NoError(t, err)
			tt.end(client.connect)
			if tt.lost != "" {
				requireLost(t, c, tt.lost)
			} else {
				<-c.Context().Done()
				require.Equal(t, &SessionError{Remote: true}, context.Cause(c.Context()))
			}
			<-client.qc.Context().Done()
		})
	}
	require.NoError(t, other.Context().Err())
}

// A reset with a code outside WebTransport's, which HTTP/3 implementations may send, counts as a reset with code 0.
func TestForeignResetCode(t *testing.T) {
	w, r := rawStream(t)
	w.CancelWrite(0x10c)
	_, err := r.Read(make([]byte, 1))
	require.Equal(t, &StreamError{Remote: true}, err)
}

// rawStream is a WebTransport stream that was opened below WebTransport, so that it can be reset with any code of
// HTTP/3. One byte of it has been read.
func rawStream(t *testing.T) (*quic.SendStream, ReceiveStream) {
	s := newServer(t)
	qc := s.dialQUIC(t, http3.NextProtoH3)
	tr := &webtransport.Transport{}
	t.Cleanup(func() { tr.Close() })
	cc, err := tr.NewClientConn(qc)
	require.NoError(t, err)
	_, _, err = cc.Dial(testContext(t), s.url(WebTransport), nil)
	require.NoError(t, err)
	server, err := s.Accept(testContext(t))
	require.NoError(t, err)
	w, err := qc.OpenUniStream()
	require.NoError(t, err)
	write(t, w, string(server.StreamPrefix())+"x")
	r, err := server.AcceptUniStream(testContext(t))
	require.NoError(t, err)
	_, err = io.ReadFull(r, make([]byte, 1))
	require.NoError(t, err)
	return w, r
}

// A peer that closes its session resets the streams first. An end that cancels a stream just then need not wait for the
// rest.
func TestCancelWhileTheSessionEnds(t *testing.T) {
	w, r := rawStream(t)
	w.CancelWrite(webtransport.WTSessionGoneErrorCode)
	ended := make(chan error)
	go func() {
		_, err := r.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		require.Fail(t, "the session has not ended yet", "%v", err)
	case <-time.After(50 * time.Millisecond): // it waits for that
	}
	r.CancelRead(1)
	select {
	case err := <-ended:
		require.Equal(t, &StreamError{Code: 1}, err)
	case <-testContext(t).Done():
		require.Fail(t, "Read goes on")
	}
}

// Connections on which no session is established in time end, whatever the client does meanwhile.
func TestUnusedHTTP3Connections(t *testing.T) {
	inMemory(t, func(*ListenConfig) {}, func(t *testing.T, s *testServer) {
		used, _ := s.connect(t, WebTransport)
		idle := s.dialQUIC(t, http3.NextProtoH3)

		halfRequest := s.dialQUIC(t, http3.NextProtoH3)
		str, err := halfRequest.OpenStream()
		require.NoError(t, err)
		write(t, str, "\x01\x40") // a HEADERS frame, cut in its length

		tr := &webtransport.Transport{}
		defer tr.Close()
		requests := s.dialQUIC(t, http3.NextProtoH3)
		cc, err := tr.NewClientConn(requests)
		require.NoError(t, err)
		request(t, cc, http.MethodGet, s.url(WebTransport))

		for _, qc := range []*quic.Conn{idle, halfRequest, requests} {
			<-qc.Context().Done()
			require.ErrorContains(t, context.Cause(qc.Context()), "no WebTransport session")
		}
		require.NoError(t, used.Context().Err(), "older, but used")
	})
}

// pages answers requests that open no session.
func pages(c *ListenConfig) {
	c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page "+r.URL.Path) })
}

// While a connection is used for pages, it need not have a session.
func TestConnectionsForPages(t *testing.T) {
	var release chan struct{}
	inMemory(t, func(c *ListenConfig) {
		c.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	}, func(t *testing.T, s *testServer) {
		release = make(chan struct{}) // in the test's bubble
		qc := s.dialQUIC(t, http3.NextProtoH3)
		tr := &webtransport.Transport{}
		defer tr.Close()
		cc, err := tr.NewClientConn(qc)
		require.NoError(t, err)
		req, err := http.NewRequest(http.MethodGet, s.url(WebTransport), nil)
		require.NoError(t, err)
		answered := make(chan error, 1)
		go func() {
			rsp, err := cc.RoundTrip(req)
			if err == nil {
				err = rsp.Body.Close()
			}
			answered <- err
		}()
		unused := s.dialQUIC(t, http3.NextProtoH3)
		<-unused.Context().Done() // opened later, and closed
		require.NoError(t, qc.Context().Err())
		close(release)
		require.NoError(t, <-answered)
		<-qc.Context().Done()
		require.ErrorContains(t, context.Cause(qc.Context()), "no WebTransport session")
	})
}

// A page that has had its own name resolved to the server's address is not one of the server's.
func TestReboundOrigin(t *testing.T) {
	cert, _, err := DevCertificate("relay.example", "192.0.2.1")
	require.NoError(t, err)
	cert.Leaf = nil // not all programs have taken it apart
	s := newServer(t, pages, func(c *ListenConfig) {
		c.Certificate, c.Origins = &cert, []string{"https://player.example"}
	})
	for host, status := range map[string]int{
		"relay.example:4443": 200, "Relay.Example": 200, "192.0.2.1:4443": 200, "localhost": 200, "[::1]:4443": 200,
		"127.0.0.2": 200, "relay.example:443": 200, "rebound.example:4443": 403, "rebound.example": 403,
		"192.0.2.2": 403, "localhost.example": 403,
	} {
		origin := "https://" + strings.TrimSuffix(host, ":443")
		rsp, _, _ := s.dialWT(t).Dial(testContext(t), "https://"+host+"/", http.Header{"Origin": {origin}})
		require.NotNil(t, rsp)
		require.Equal(t, status, rsp.StatusCode, host)
	}
}
