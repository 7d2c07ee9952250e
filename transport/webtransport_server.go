package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
)

const (
	availableProtocols = "WT-Available-Protocols" // draft-ietf-webtrans-http3 §3.3
	// maxHeaderBytes bounds a CONNECT request, which needs only a URL and a few names.
	maxHeaderBytes = 32 << 10
)

// wtServer answers the HTTP/3 requests of a listener: one WebTransport session on each connection, 404 otherwise.
type wtServer struct {
	l  *Listener
	wt webtransport.Server
}

func newWTServer(l *Listener) *wtServer {
	s := &wtServer{l: l}
	s.wt = webtransport.Server{
		H3: &http3.Server{
			Handler:        s,
			MaxHeaderBytes: maxHeaderBytes,
			ConnContext:    s.connContext,
			Logger:         slog.New(withoutRequests{l.log.Handler()}),
		},
		ApplicationProtocols: l.cfg.Protocols,
		ReorderingTimeout:    l.cfg.handshakeTimeout(),
		CheckOrigin:          func(*http.Request) bool { return true }, // ServeHTTP does
	}
	return s
}

// withoutRequests passes on all messages but those for debugging: with these, the HTTP/3 server logs the URL of each
// request, whose query may hold a token.
type withoutRequests struct{ slog.Handler }

func (h withoutRequests) Enabled(ctx context.Context, level slog.Level) bool {
	return level > slog.LevelDebug && h.Handler.Enabled(ctx, level)
}

func (h withoutRequests) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutRequests{h.Handler.WithAttrs(attrs)}
}

func (h withoutRequests) WithGroup(name string) slog.Handler {
	return withoutRequests{h.Handler.WithGroup(name)}
}

func (s *wtServer) close() error { return s.wt.Close() }

func (s *wtServer) serve(qc *quic.Conn) {
	if err := s.wt.ServeQUICConn(qc); err != nil {
		s.l.log.Debug("HTTP/3 connection failed", "remote", qc.RemoteAddr(), "err", err)
	}
}

// wtConn is what the server knows of an HTTP/3 connection.
type wtConn struct {
	qc      *quic.Conn
	taken   atomic.Bool // by a session, even if that is over
	timeout *time.Timer // until there is a session
}

type wtConnKey struct{}

func (s *wtServer) connContext(ctx context.Context, qc *quic.Conn) context.Context {
	c := &wtConn{qc: qc}
	c.timeout = time.AfterFunc(s.l.cfg.handshakeTimeout(), func() {
		_ = qc.CloseWithError(h3NoError, "no WebTransport session was established in time")
	})
	context.AfterFunc(qc.Context(), func() { c.timeout.Stop() })
	return context.WithValue(ctx, wtConnKey{}, c)
}

// ServeHTTP answers a request.
func (s *wtServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || !strings.HasPrefix(r.Proto, "webtransport") {
		http.NotFound(w, r)
		return
	}
	origin := r.Header.Get("Origin")
	if origin != "" && len(s.l.cfg.Origins) > 0 && !slices.Contains(s.l.cfg.Origins, origin) {
		http.Error(w, fmt.Sprintf("pages of %q may not connect", origin), http.StatusForbidden)
		return
	}
	if offered := r.Header.Values(availableProtocols); len(offered) > 0 && !s.speaksOneOf(offered) {
		http.Error(w, fmt.Sprintf("this server speaks %q", s.l.cfg.Protocols), http.StatusBadRequest)
		return
	}
	c := r.Context().Value(wtConnKey{}).(*wtConn)
	if c.taken.Swap(true) {
		http.Error(w, "one session is allowed on a connection", http.StatusTooManyRequests)
		return
	}
	wt, err := s.wt.Upgrade(w, r)
	if err != nil {
		s.l.log.Debug("WebTransport session failed", "remote", r.RemoteAddr, "err", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.timeout.Stop()
	proto := wt.SessionState().ApplicationProtocol
	if proto == "" {
		proto = s.l.cfg.Protocols[0]
	}
	s.l.deliver(newWTSession(newSession(c.qc, proto, r.Host, r.URL.RequestURI()), wt, false), c.qc)
}

// speaksOneOf reads a list of strings (RFC 9651 §3.1).
func (s *wtServer) speaksOneOf(header []string) bool {
	list, err := httpsfv.UnmarshalList(header)
	return err == nil && slices.ContainsFunc(list, func(m httpsfv.Member) bool {
		item, _ := m.(httpsfv.Item)
		name, _ := item.Value.(string)
		return slices.Contains(s.l.cfg.Protocols, name)
	})
}
