package web

import (
	"cmp"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/limited"
)

// Limits of a connection. A page is a few small files, and a browser sends short headers.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	idleTimeout   = 15 * time.Second // a page asks for viewers more often
	headerBytes   = 16 << 10
	streams       = 32 // of HTTP/2, at a time
)

// ServerConfig is the configuration of a [Server]. Site and Certificate are required.
type ServerConfig struct {
	Site        http.Handler
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Challenges lets Certificate answer the challenges of certificate authorities (TLS-ALPN-01, RFC 8737).
	Challenges bool
	// Plain lets clients on this machine do without TLS.
	Plain bool
	// MaxConnections and MaxConnectionsPerSource are how many connections may exist at a time, in all and from one
	// source address. Defaults: 1,024 and 64.
	MaxConnections, MaxConnectionsPerSource int
	// Logger gets messages that an operator can act on. Default: slog.Default().
	Logger *slog.Logger
}

// A sixteenth of all connections, as of sessions, so that a few addresses cannot keep others out. A browser has one, or
// six if it does not speak HTTP/2.
const (
	defaultMaxConnections = 1024
	defaultMaxPerSource   = 64
)

// Server serves a Site over TCP, by HTTP/1.1 and HTTP/2. It is a [prometheus.Collector].
type Server struct {
	http      http.Server
	listener  *limited.Listener
	listeners []net.Listener // of http
	tasks     sync.WaitGroup
}

// Serve starts to serve the connections of a listener. Close ends that.
func Serve(l net.Listener, cfg ServerConfig) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	conf := &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: cfg.Certificate, NextProtos: []string{"h2", "http/1.1"},
	}
	if cfg.Challenges { // http.Server ends the connection after the handshake, as it should
		conf.NextProtos = append(conf.NextProtos, "acme-tls/1")
	}
	s := &Server{listener: limited.NewListener(l,
		cmp.Or(cfg.MaxConnections, defaultMaxConnections), cmp.Or(cfg.MaxConnectionsPerSource, defaultMaxPerSource))}
	s.http = http.Server{
		Handler: cfg.Site, TLSConfig: conf, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes,
		ErrorLog:       slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug), // about peers
	}
	s.listeners = []net.Listener{tls.NewListener(s.listener, conf)}
	if cfg.Plain {
		sorted := newSorter(s.listener)
		s.listeners = []net.Listener{tls.NewListener(sorted.tls, conf), sorted.plain}
		s.tasks.Go(sorted.run)
	}
	for _, l := range s.listeners {
		s.tasks.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				cfg.Logger.Error("the web page is not served any more", "err", err)
			}
		})
	}
	return s
}

// Addr returns the address that is served.
func (s *Server) Addr() *net.TCPAddr { return s.listener.Addr().(*net.TCPAddr) }

// Close ends all connections. On a nil Server it does nothing.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	err := s.http.Close()
	s.tasks.Wait()
	return err
}

var refused = prometheus.NewDesc("sluice_web_refused_connections_total",
	"TCP connections for the web page that were refused: total, because there were too many; address, because there "+
		"were too many from one source address.", []string{"limit"}, nil)

// Describe implements [prometheus.Collector].
func (s *Server) Describe(ch chan<- *prometheus.Desc) { ch <- refused }

// Collect implements [prometheus.Collector].
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	total, source := s.listener.Refused()
	for limit, n := range map[string]uint64{"total": total, "address": source} {
		ch <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(n), limit)
	}
}
