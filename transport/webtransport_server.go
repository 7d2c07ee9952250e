package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"sluice/internal/logs"
)

const (
	availableProtocols = "WT-Available-Protocols" // draft-ietf-webtrans-http3 §3.3
	// maxHeaderBytes bounds a CONNECT request, which needs only a URL and a few names.
	maxHeaderBytes = 32 << 10

	settingMaxSessions = 0x14e9cd29 // SETTINGS_WT_MAX_SESSIONS of draft-ietf-webtrans-http3-13 and -14
)

// wtLimits are the limits of a session that the server announces. They take nothing away from QUIC's limits, which
// bound each connection and so its only session. Safari refuses servers that announce none.
var wtLimits = webtransport.Config{
	MaxIncomingStreams: 1 << 60, MaxIncomingUniStreams: 1 << 60, MaxIncomingData: 1<<62 - 1,
}

// wtServer answers the HTTP/3 requests of a listener: one WebTransport session on each connection. Other requests go to
// the handler of the configuration.
type wtServer struct {
	l       *Listener
	wt      webtransport.Server
	refused logs.Line
}

func newWTServer(l *Listener) *wtServer {
	s := &wtServer{l: l}
	s.wt = webtransport.Server{
		H3: &http3.Server{
			Handler:            s,
			MaxHeaderBytes:     maxHeaderBytes,
			ConnContext:        s.connContext,
			Logger:             slog.New(withoutRequests{l.log.Handler()}),
			AdditionalSettings: map[uint64]uint64{settingMaxSessions: 1},
		},
		Config:               &wtLimits,
		ApplicationProtocols: l.cfg.Protocols,
		ReorderingTimeout:    l.cfg.handshakeTimeout(),
		CheckOrigin:          func(*http.Request) bool { return true }, // ServeHTTP does
	}
	return s
}

// withoutRequests passes on all messages but debug messages: in these, the HTTP/3 server logs the URL of each request,
// whose query may hold a token.
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

// wtConn is the server's state of an HTTP/3 connection.
type wtConn struct {
	qc      *quic.Conn
	taken   atomic.Bool // by a session, even if that is over
	limit   time.Duration
	timeout *time.Timer // until there is a session

	mu          sync.Mutex // guards what follows
	answering   int        // requests that open no session
	established bool       // a session is, or was
}

type wtConnKey struct{}

func (s *wtServer) connContext(ctx context.Context, qc *quic.Conn) context.Context {
	c := &wtConn{qc: qc, limit: s.l.cfg.handshakeTimeout()}
	c.timeout = time.AfterFunc(c.limit, c.expire)
	context.AfterFunc(qc.Context(), func() { c.timeout.Stop() })
	return context.WithValue(ctx, wtConnKey{}, c)
}

// expire closes a connection that nobody uses.
func (c *wtConn) expire() {
	c.mu.Lock()
	unused := !c.established && c.answering == 0
	c.mu.Unlock()
	if unused {
		_ = c.qc.CloseWithError(h3NoError, "no WebTransport session was established in time")
	}
}

// answer answers a request that opens no session. A connection need not have one meanwhile, and soon after.
func (c *wtConn) answer(h http.Handler, w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.answering++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.answering--; c.answering == 0 && !c.established {
			c.timeout.Reset(c.limit)
		}
	}()
	h.ServeHTTP(w, r)
}

// establish tells that the connection has a session.
func (c *wtConn) establish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.established = true
	c.timeout.Stop()
}

// ServeHTTP answers a request.
func (s *wtServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(wtConnKey{}).(*wtConn)
	switch opens := r.Method == http.MethodConnect && strings.HasPrefix(r.Proto, "webtransport"); {
	case !opens && s.l.cfg.Handler != nil:
		c.answer(s.l.cfg.Handler, w, r)
		return
	case !opens:
		http.NotFound(w, r)
		return
	}
	if origin := r.Header.Get("Origin"); !s.accepts(origin, r) {
		s.refuse(w, r, http.StatusForbidden, fmt.Sprintf("pages of %q may not connect", origin))
		return
	}
	if offered := r.Header.Values(availableProtocols); len(offered) > 0 && !s.speaksOneOf(offered) {
		s.refuse(w, r, http.StatusBadRequest, fmt.Sprintf("this server speaks %q", s.l.cfg.Protocols))
		return
	}
	if c.taken.Swap(true) {
		s.refuse(w, r, http.StatusTooManyRequests, "one session is allowed on a connection")
		return
	}
	wt, err := s.wt.Upgrade(w, r)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	c.establish()
	proto := wt.SessionState().ApplicationProtocol
	if proto == "" {
		proto = s.l.cfg.Protocols[0]
	}
	s.l.deliver(newWTSession(newSession(c.qc, proto, r.Host, r.URL.RequestURI()), wt, false), c.qc)
}

// accepts reports whether pages of an origin may send a request for a session. Browsers leave the default port out of
// origins, but not all of them out of the authority.
func (s *wtServer) accepts(origin string, r *http.Request) bool {
	return origin == "" || len(s.l.cfg.Origins) == 0 || slices.Contains(s.l.cfg.Origins, origin) ||
		s.l.cfg.Handler != nil && origin == "https://"+strings.TrimSuffix(r.Host, ":443") && s.isNamed(r)
}

// isNamed reports whether a request calls the server by a name of it: one that its certificate has, or one of this
// machine's own. Another name may belong to a web page that has had its own name resolved to the server's address (DNS
// rebinding): it may trust the certificate by its hash, and then its browser compares no names.
func (s *wtServer) isNamed(r *http.Request) bool {
	host := (&url.URL{Host: r.Host}).Hostname()
	if addr, err := netip.ParseAddr(host); strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback() {
		return true
	}
	cert, err := s.l.Certificate(&tls.ClientHelloInfo{ServerName: host})
	if err != nil {
		return false
	}
	leaf := cert.Leaf
	if leaf == nil {
		if leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return false
		}
	}
	return leaf.VerifyHostname(host) == nil
}

// refuse answers a request for a session, and logs the client's offer: browsers do not show the answer.
func (s *wtServer) refuse(w http.ResponseWriter, r *http.Request, status int, reason string) {
	offered := strings.Join(r.Header.Values(availableProtocols), ", ")
	s.refused.Log(s.l.log, logs.Interval, slog.LevelInfo, "WebTransport session refused", "remote", r.RemoteAddr,
		"reason", reason, "offered", offered[:min(len(offered), maxOffered)], "origin", r.Header.Get("Origin"))
	http.Error(w, reason, status)
}

// maxOffered is how much of an offer is logged, in bytes.
const maxOffered = 200

// speaksOneOf reads a list of strings (RFC 9651 §3.1). If another type is in it, nothing of it counts
// (draft-ietf-webtrans-http3 §3.3): the library, which chooses, would choose none.
func (s *wtServer) speaksOneOf(header []string) bool {
	list, err := httpsfv.UnmarshalList(header)
	speaks := false
	for _, member := range list {
		item, _ := member.(httpsfv.Item)
		name, isString := item.Value.(string)
		if !isString {
			return false
		}
		speaks = speaks || slices.Contains(s.l.cfg.Protocols, name)
	}
	return err == nil && speaks
}
