package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/service"
	"sluice/relay"
	"sluice/server"
	"sluice/server/api"
	"sluice/transport"
)

func newRelay(env *cli.Environment) *cobra.Command {
	var f relayFlags
	cmd := &cobra.Command{
		Use:   "relay [flags] --listen ADDR:PORT (--tls-cert FILE --tls-key FILE | --acme NAME | --dev)",
		Short: "Relay broadcasts from publishers to subscribers",
		Long: `Relay broadcasts: publishers and subscribers connect to the same UDP port, over raw QUIC or over
WebTransport. One subscription at a publisher serves all subscribers of a track. A cache serves late subscribers and
FETCH.

All flags can also be in a file: see sluice relay config --help.

SIGTERM and SIGINT drain the relay: it asks its peers to move on (GOAWAY), and ends when they have left or after
--drain. A second signal ends it at once. Certificates and tokens are read again when their files change.

With --upstream, it subscribes at another relay for what nobody publishes here: once, however many subscribers there
are. That relay may be of any make.

With --rtsp or --rtsps, it serves RTSP clients, too: what they publish is a MoQ broadcast as well, and they play MoQ
broadcasts.

With --control, the same command with --replace replaces a running relay, for example by a new version: it takes over
the port, and the old process asks its peers to move (GOAWAY) and serves them until they have. It needs CAP_BPF when
the first process starts. If the new process cannot start, the old one goes on as before.`,
		Example: `  # try it on this machine
  sluice relay --dev

  # for the public, behind a firewall that lets port 443 in: UDP, and TCP for the web page
  sluice relay --listen :443 --tls-cert /etc/sluice/fullchain.pem --tls-key /etc/sluice/key.pem \
    --auth-token-file /etc/sluice/tokens

  # the same with a certificate that the relay gets itself
  sluice relay --listen :443 --acme relay.example --auth-token-file /etc/sluice/tokens

  # bring the broadcasts of another relay closer to their subscribers
  sluice relay --dev --upstream moqt://origin.example --upstream-token-file token

  # let cameras publish, and players play, by RTSP
  sluice relay --dev --rtsp :8554

  # replace a running relay
  sluice relay --dev --control /run/sluice.sock
  sluice relay --dev --control /run/sluice.sock --replace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.web.given = cmd.Flags().Changed("web")
			if err := f.check(); err != nil {
				return cli.AsUsage(cli.ExplainOrigin(cmd.Flags(), err))
			}
			for _, err := range openSecrets(cmd.Flags()) {
				slog.Warn("every user of this machine can read a secret", "err", err)
			}
			go followConfig(cmd.Context(), cmd.Flags(), newReloadable(&f.qlog))
			return cli.ExplainOrigin(cmd.Flags(), f.run(cmd.Context(), env))
		},
	}
	f.register(cmd)
	cmd.AddCommand(newRelayStatus(env), newRelaySessions(env), newRelayKick(env), newRelayWithdraw(env),
		newRelayDrain(env), newRelayConfig(env))
	return cmd
}

func (f *relayFlags) run(ctx context.Context, env *cli.Environment) error {
	if err := service.RaisePrivileges(); err != nil {
		slog.Warn("permitted capabilities are not used", "err", err)
	}
	coarsenTimers()
	service.CollectEarly()
	if !f.pprof {
		service.SampleNothing()
	}
	if f.background {
		return runInBackground(env)
	}
	cfg, err := f.config(env.Getenv)
	if err != nil {
		return err
	}
	defer f.events.close()
	defer f.otlp.close()
	if cfg.Rule != nil {
		defer cfg.Rule.Close()
	}
	t, err := f.takeOver(&cfg)
	if err != nil {
		return err
	}
	f.addSite(&cfg, t.certificate)
	if cfg.FastPath.Mode == server.FastPathOff || runtime.GOOS != "linux" {
		transport.OfferStockSuites() // the process seals all packets
	}
	s, err := server.Listen(cfg)
	if err != nil {
		files := f.cfg.Transport
		err = cmp.Or(f.cluster.tls.Check(), explainCertificate("--tls", files.CertFile, files.KeyFile, err))
		return errors.Join(explainListen(err), t.close())
	}
	node, err := f.cluster.prepare(env, f.replace)
	if err == nil {
		err = f.auth.keepWithdrawn(relay.OperatorOf(s.Relay()).Withdrawn())
	}
	if err != nil {
		return errors.Join(err, node.close(), s.Drain("", 0), t.close())
	}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	a, beside, err := f.start(s, t, node, drain)
	if err != nil {
		return errors.Join(err, node.close(), s.Drain("", 0), t.close())
	}
	f.warnUnfit(ctx, env.Getenv)
	if err := dropPrivileges(s.FastPath() != nil); err != nil {
		slog.Warn("privileges are kept that the relay does not need", "err", err)
	}
	greet(env.Stdout, s, a, beside, t.certificate)
	return errors.Join(f.serve(ctx, s, a, beside, t), a.Close(), beside.close(), t.close())
}

// start opens the admin address, unless --admin is empty, and the ports of the web page and RTSP, has this process get
// new sessions, and then makes it a node: until then the process that it replaces is that node, and stays it if this
// one fails. An operator may call drain at the admin address.
func (f *relayFlags) start(
	s *server.Server, t *takeover, node *clusterNode, drain func(),
) (*service.Admin, companions, error) {
	l, err := t.listenAdmin(f.admin)
	if err != nil {
		return nil, companions{}, service.ExplainAdmin("--admin", err)
	}
	beside, err := f.serveCompanions(s)
	if err == nil {
		err = t.begin(f.control, s, l)
	}
	if err == nil {
		err = node.join(s, t.from != nil)
	}
	metrics := slices.Concat(f.auth.metrics, f.events.metrics(), t.metrics(), beside.metrics(),
		certificateEnds(s.Certificate, f.acme.Names), s.Collectors())
	if err == nil {
		err = f.otlp.export(metrics)
	}
	if err != nil {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
		return nil, companions{}, errors.Join(err, beside.close())
	}
	if l == nil {
		return nil, beside, nil
	}
	a, err := f.serveAdmin(l, s, t, metrics, drain)
	if err != nil {
		return nil, companions{}, errors.Join(err, beside.close())
	}
	return a, beside, nil
}

// serve runs the relay until the context is done, or another process has taken over, and drains it. It reports the
// state to systemd and at the admin address.
func (f *relayFlags) serve(
	ctx context.Context, s *server.Server, a *service.Admin, beside companions, t *takeover,
) error {
	alive, stop := context.WithCancel(context.Background())
	defer stop()
	go service.FeedWatchdog(alive, s.Alive)
	a.SetReady(true)
	service.NotifySystemd(daemon.SdNotifyReady)
	serving, end := t.untilReplaced(ctx)
	defer end(nil)
	err := s.Serve(serving)
	if r, ok := errors.AsType[*replacedError](context.Cause(serving)); ok {
		stop()
		if err := beside.close(); err != nil { // the other process serves both
			slog.Warn("cannot close the web page and RTSP", "err", err)
		}
		return errors.Join(err, f.retire(ctx, s, a, t, r.pid))
	}

	a.SetReady(false)
	service.NotifySystemd(daemon.SdNotifyStopping)
	slog.Info("draining", "for at most", f.drain)
	err = errors.Join(err, beside.rtsp.Close()) // RTSP has no GOAWAY: clients connect again, elsewhere
	err = errors.Join(err, s.Drain(f.drainURI, f.drain))
	slog.Info("ended")
	return err
}

// retire serves the sessions that are left when another process has taken over. The context ends them.
func (f *relayFlags) retire(ctx context.Context, s *server.Server, a *service.Admin, t *takeover, successor int) error {
	slog.Info("another process has taken over; draining", "pid", successor, "for at most", f.replaceDrain)
	if err := a.Close(); err != nil { // the other process serves it
		slog.Warn("cannot end requests at the admin address", "err", err)
	}
	draining, stop := context.WithCancel(ctx)
	defer stop()
	defer obeySuccessors(f.control, s)()
	go t.tellSessions(draining, s.Relay().OpenSessions)
	err := s.Retire(ctx, f.replaceDrain, goawayTo[f.replaceGoaway])
	slog.Info("ended")
	return err
}

// serveAdmin serves the admin address. The metrics of sessions have a path of their own, because they come and go with
// sessions: only a scraper that asks for them has to store them.
func (f *relayFlags) serveAdmin(
	l net.Listener, s *server.Server, t *takeover, metrics []prometheus.Collector, drain func(),
) (*service.Admin, error) {
	cfg := service.AdminConfig{
		Flag: "--admin", Addr: f.admin, Hosts: f.adminHosts, Profiles: f.pprof, Alive: s.Alive,
		Awaits: f.auth.awaits,
	}
	a := service.NewAdmin(l, cfg, metrics...)
	sessions := prometheus.NewRegistry()
	sessions.MustRegister(s.SessionMetrics())
	a.Mux.Handle("GET /metrics/sessions", promhttp.HandlerFor(sessions, promhttp.HandlerOpts{}))
	a.Mux.HandleFunc("GET /status", s.ServeStatus)
	a.Mux.HandleFunc("GET /cluster", s.ServeCluster)
	elders := func() []api.Elder { return t.elders(f.control) }
	operate := api.New(relay.OperatorOf(s.Relay()), elders, drain, slog.Default())
	if f.inside.tokenFile == "" {
		operate = api.SameUser(operate)
	}
	a.Mux.Handle("/api/", f.inside.guard.Wrap(operate))
	if err := f.inside.addTo(a, s); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// greet prints how to reach the relay.
func greet(w io.Writer, s *server.Server, a *service.Admin, beside companions, dev *tls.Certificate) {
	addr := s.Addr()
	host := net.JoinHostPort(hostFor(addr.IP), fmt.Sprint(addr.Port))
	fmt.Fprintf(w, "listening on UDP %s\n", addr)
	fmt.Fprintf(w, "  raw QUIC      moqt://%s\n", host)
	fmt.Fprintf(w, "  WebTransport  https://%s\n", host)
	if dev != nil {
		fmt.Fprintf(w, "  certificate   sha256 %s\n", fingerprint(dev))
	}
	beside.greet(w)
	if a != nil {
		fmt.Fprintf(w, "  metrics       http://%s/metrics\n", a.Addr())
	}
}

// hostFor returns the host of a URL that reaches this machine from itself.
func hostFor(ip net.IP) string {
	if ip.IsUnspecified() || ip == nil {
		return "localhost"
	}
	return ip.String()
}

// explainListen adds advice to an error of server.Listen.
func explainListen(err error) error {
	if fastPath, ok := errors.AsType[*server.FastPathError](err); ok {
		return fmt.Errorf("--fastpath on: %w", fastPath.Err)
	}
	_, isPort := errors.AsType[*net.OpError](err)
	_, isName := errors.AsType[*net.DNSError](err)
	switch {
	case isPort && errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--listen: %w: is another relay running? choose another port", err)
	case isPort && errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("--listen: %w: must be an address of this machine", err)
	case isPort && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("--listen: %w: ports below 1024 need CAP_NET_BIND_SERVICE: see sluice-relay.service", err)
	case isPort || isName:
		return fmt.Errorf("--listen: %w", err)
	}
	return err
}
