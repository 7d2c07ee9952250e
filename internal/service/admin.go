package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"sluice/internal/cli"
)

// Limits of the admin address. A client there is a scraper, a health check or an operator, and asks for a few pages.
const (
	adminConnections  = 64               // each costs a file descriptor, which sessions need, too
	adminHeaderBytes  = 16 << 10         // far above what these clients send, and 1/64 of the default
	adminReadTimeout  = 5 * time.Second  // for a request; it has no body
	adminWriteTimeout = 30 * time.Second // for an answer; Go profiles add the time that they record
	adminIdleTimeout  = time.Minute      // between two scrapes
)

// Admin serves metrics and health checks over HTTP. On a nil Admin, SetReady and Close do nothing.
type Admin struct {
	listener net.Listener
	Mux      *http.ServeMux // for more pages
	server   *http.Server
	alive    func() bool
	awaits   func() string
	ready    atomic.Bool
}

// AdminConfig is the address of an Admin, and its content.
type AdminConfig struct {
	Flag     string   // the name of the flag with Addr; its name with -host is the flag with Hosts
	Addr     string   // TCP address
	Hosts    []string // names by which clients may call the address
	Profiles bool     // serve Go profiles

	Alive func() bool // whether /healthz says that all is well; nil if it always is
	// Awaits returns what a process that serves still waits for before /readyz says that it is ready. nil: nothing.
	Awaits func() string
}

// ListenAdmin opens the admin address and starts to serve it. It has no access control, so it belongs on the loopback
// interface or in a private network.
func ListenAdmin(cfg AdminConfig, metrics ...prometheus.Collector) (*Admin, error) {
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, ExplainAdmin(cfg.Flag, err)
	}
	return NewAdmin(l, cfg, metrics...), nil
}

// ExplainAdmin adds advice to an error of listening at the admin address.
func ExplainAdmin(flag string, err error) error {
	return fmt.Errorf("%s: %w; choose another address, or %s '' for none", flag, err, flag)
}

// NewAdmin starts to serve a listener.
func NewAdmin(l net.Listener, cfg AdminConfig, metrics ...prometheus.Collector) *Admin {
	if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		slog.Warn("the admin address has no access control and is open to others", "address", l.Addr())
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(metrics, ProcessMetrics()...)...)

	mux := http.NewServeMux()
	a := &Admin{listener: l, Mux: mux, alive: cfg.Alive, awaits: cfg.Awaits}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", a.serveHealth)
	mux.HandleFunc("GET /readyz", a.serveReady)
	if cfg.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	a.server = &http.Server{
		Handler:        &adminGuard{cfg.Flag + "-host", append([]string{"localhost"}, cfg.Hosts...), mux},
		ReadTimeout:    adminReadTimeout,
		WriteTimeout:   adminWriteTimeout,
		IdleTimeout:    adminIdleTimeout,
		MaxHeaderBytes: adminHeaderBytes,
	}
	go func() {
		if err := a.server.Serve(netutil.LimitListener(l, adminConnections)); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("admin address failed", "err", err)
		}
	}()
	return a
}

// Addr returns the address that is served.
func (a *Admin) Addr() net.Addr { return a.listener.Addr() }

// OnClose has a function called when the address is closed, for answers that do not end by themselves.
func (a *Admin) OnClose(f func()) { a.server.RegisterOnShutdown(f) }

// SetReady changes the answer of /readyz: load balancers send new sessions to relays that answer 200.
func (a *Admin) SetReady(ready bool) {
	if a != nil {
		a.ready.Store(ready)
	}
}

func (a *Admin) serveReady(w http.ResponseWriter, _ *http.Request) {
	missing := ""
	if !a.ready.Load() {
		missing = "draining"
	} else if a.awaits != nil {
		missing = a.awaits()
	}
	if missing != "" {
		http.Error(w, missing, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// serveHealth tells the service manager whether to restart the process.
func (a *Admin) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if a.alive != nil && !a.alive() {
		http.Error(w, "stuck", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Close ends the service of the address within a second.
func (a *Admin) Close() error {
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return a.server.Shutdown(ctx)
}

// ProcessMetrics are the metrics of every process of Sluice.
func ProcessMetrics() []prometheus.Collector {
	return []prometheus.Collector{collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(), startTime()}
}

// startTime is there even where /proc shows only processes, as in dist/sluice-relay.service. That hides the boot time,
// which process_start_time_seconds is computed from.
func startTime() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_start_time_seconds", Help: "Unix time at which metrics began to be served.",
	})
	g.SetToCurrentTime()
	return g
}

func buildInfo() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the version.",
		ConstLabels: prometheus.Labels{"version": cli.VersionText("sluice")},
	})
	g.Set(1)
	return g
}
