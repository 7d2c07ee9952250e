package main

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

	"sluice/internal/cli"
)

// admin serves metrics and health checks over HTTP. On a nil admin, setReady and close do nothing.
type admin struct {
	listener net.Listener
	mux      *http.ServeMux
	server   *http.Server
	ready    atomic.Bool
}

// listenAdmin opens the admin address and starts to serve it. It has no access control, so it belongs on the loopback
// interface or in a private network. flag is the name of the flag with addr.
func listenAdmin(flag, addr string, profiles bool, metrics ...prometheus.Collector) (*admin, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; choose another address, or %s '' for none", flag, err, flag)
	}
	if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		slog.Warn("the admin address has no access control and is open to others", "address", l.Addr())
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	registry.MustRegister(metrics...)

	mux := http.NewServeMux()
	a := &admin{listener: l, mux: mux}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.serveReady)
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() {
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("admin address failed", "error", err)
		}
	}()
	return a, nil
}

// setReady changes the answer of /readyz: load balancers send new sessions to relays that answer 200.
func (a *admin) setReady(ready bool) {
	if a != nil {
		a.ready.Store(ready)
	}
}

func (a *admin) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !a.ready.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

func (a *admin) close() error {
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return a.server.Shutdown(ctx)
}

func buildInfo() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the version.",
		ConstLabels: prometheus.Labels{"version": cli.VersionText("sluice")},
	})
	g.Set(1)
	return g
}
