package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/server"
)

func newRelay(env *cli.Environment) *cobra.Command {
	var f relayFlags
	cmd := &cobra.Command{
		Use:   "relay [flags] --listen ADDR:PORT (--tls-cert FILE --tls-key FILE | --dev)",
		Short: "Relay broadcasts from publishers to subscribers",
		Long: `Relay broadcasts: publishers and subscribers connect to the same UDP port, over raw QUIC or over
WebTransport. One subscription at a publisher serves all subscribers of a track. A cache serves late subscribers and
FETCH.

SIGTERM and SIGINT drain the relay: it asks its peers to move on (GOAWAY), and ends when they have left or after
--drain. A second signal ends it at once. Certificates and tokens are read again when their files change.`,
		Example: `  # try it on this machine
  sluice relay --dev

  # for the public, behind a firewall that lets UDP port 443 in
  sluice relay --listen :443 --tls-cert /etc/sluice/fullchain.pem --tls-key /etc/sluice/key.pem \
    --auth-token-file /etc/sluice/tokens`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	f.register(cmd)
	cmd.AddCommand(newRelayStatus(env))
	return cmd
}

func (f *relayFlags) run(ctx context.Context, env *cli.Environment) error {
	if err := raisePrivileges(); err != nil {
		slog.Warn("permitted capabilities are not used", "error", err)
	}
	coarsenTimers()
	if err := f.check(); err != nil {
		return cli.AsUsage(err)
	}
	cfg, certificate, err := f.config()
	if err != nil {
		return err
	}
	defer f.events.close()
	s, err := server.Listen(cfg)
	if err != nil {
		return explainListen(err)
	}
	a, err := f.openAdmin(s)
	if err != nil {
		return errors.Join(err, s.Drain("", 0))
	}
	if err := dropPrivileges(s.HasFastPath()); err != nil {
		slog.Warn("privileges are kept that the relay does not need", "error", err)
	}
	greet(env.Stdout, s, a, certificate)
	return errors.Join(f.serve(ctx, s, a), a.close())
}

// serve runs the relay until the context is done, and drains it. It reports the state to systemd and at the admin
// address.
func (f *relayFlags) serve(ctx context.Context, s *server.Server, a *admin) error {
	alive, stop := context.WithCancel(context.Background())
	defer stop()
	go feedWatchdog(alive, s.Alive)
	a.setReady(true)
	notifySystemd(daemon.SdNotifyReady)
	err := s.Serve(ctx)

	a.setReady(false)
	notifySystemd(daemon.SdNotifyStopping)
	slog.Info("draining", "for at most", f.drain)
	err = errors.Join(err, s.Drain(f.drainURI, f.drain))
	slog.Info("ended")
	return err
}

// openAdmin opens the admin address, unless --admin is empty. The metrics of sessions have a path of their own, because
// they come and go with sessions: only a scraper that asks for them has to store them.
func (f *relayFlags) openAdmin(s *server.Server) (*admin, error) {
	if f.admin == "" {
		return nil, nil
	}
	cfg := adminConfig{flag: "--admin", addr: f.admin, hosts: f.adminHosts, profiles: f.pprof}
	a, err := listenAdmin(cfg, slices.Concat(f.auth.metrics, f.events.metrics(), []prometheus.Collector{s})...)
	if err != nil {
		return nil, err
	}
	sessions := prometheus.NewRegistry()
	sessions.MustRegister(s.SessionMetrics())
	a.mux.Handle("GET /metrics/sessions", promhttp.HandlerFor(sessions, promhttp.HandlerOpts{}))
	a.mux.HandleFunc("GET /status", s.ServeStatus)
	return a, nil
}

// greet prints how to reach the relay.
func greet(w io.Writer, s *server.Server, a *admin, certificate string) {
	addr := s.Addr()
	host := net.JoinHostPort(hostFor(addr.IP), fmt.Sprint(addr.Port))
	fmt.Fprintf(w, "listening on UDP %s\n", addr)
	fmt.Fprintf(w, "  raw QUIC      moqt://%s\n", host)
	fmt.Fprintf(w, "  WebTransport  https://%s\n", host)
	if certificate != "" {
		fmt.Fprintf(w, "  certificate   sha256 %s\n", certificate)
	}
	if a != nil {
		fmt.Fprintf(w, "  metrics       http://%s/metrics\n", a.listener.Addr())
	}
}

// hostFor returns the host of a URL that reaches this machine from itself.
func hostFor(ip net.IP) string {
	if ip.IsUnspecified() || ip == nil {
		return "localhost"
	}
	return ip.String()
}

// explainListen adds to an error of server.Listen what to do about it.
func explainListen(err error) error {
	if fastPath, ok := errors.AsType[*server.FastPathError](err); ok {
		return fmt.Errorf("--fastpath on: %w", fastPath.Err)
	}
	switch text := err.Error(); {
	case strings.Contains(text, "address already in use"):
		return fmt.Errorf("%w: is another relay running? choose another port with --listen", err)
	case strings.Contains(text, "permission denied") && !strings.Contains(text, ".pem"):
		return fmt.Errorf("%w: ports below 1024 need the capability CAP_NET_BIND_SERVICE, "+
			"which dist/sluice-relay.service grants", err)
	}
	return err
}
