package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"sluice/fastpath"
	"sluice/internal/cli"
	"sluice/relay"
	"sluice/transport"
)

func newRelay(env *cli.Environment) *cobra.Command {
	var f relayFlags
	cmd := &cobra.Command{
		Use:   "relay [flags] --listen ADDR:PORT (--tls-cert FILE --tls-key FILE | --dev)",
		Short: "Relay broadcasts from publishers to subscribers",
		Long: `Relay broadcasts: publishers and subscribers connect to the same UDP port, over raw QUIC or over WebTransport. One subscription at
a publisher serves all subscribers of a track, and late ones and FETCH are served from a cache.

SIGTERM and SIGINT drain the relay: it asks its peers to move on (GOAWAY), and ends when they have left or after --drain. A
second signal ends it at once. Certificates and tokens are read again when their files change.`,
		Example: `  # try it on this machine
  sluice relay --dev

  # for the public, behind a firewall that lets UDP port 443 in
  sluice relay --listen :443 --tls-cert /etc/sluice/fullchain.pem --tls-key /etc/sluice/key.pem --auth-token-file /etc/sluice/tokens`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	f.register(cmd)
	cmd.AddCommand(newRelayStatus(env))
	return cmd
}

type relayFlags struct {
	listen, admin string
	dev           bool
	devHosts      []string
	pprof         bool
	transport     transport.Config
	relay         relay.Config
	cacheMiB      int
	tokenFile     string
	scope         string
	fastPath      fastPathConfig
	budget        int
	drop          string
	drain         time.Duration
	drainURI      string
}

func (f *relayFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", ":4443", "UDP `address` to listen on")
	flags.StringVar(&f.transport.CertFile, "tls-cert", "", "PEM `file` with the certificate and its chain")
	flags.StringVar(&f.transport.KeyFile, "tls-key", "", "PEM `file` with its private key")
	flags.BoolVar(&f.dev, "dev", false, "make a certificate for tests, valid for 13 days, and print its SHA-256 for clients")
	flags.StringSliceVar(&f.devHosts, "dev-host", nil, "more host names and addresses for the certificate of --dev")
	flags.StringSliceVar(&f.transport.Origins, "origin", nil, "web `origins` whose pages may connect, such as https://player.example (default: all)")

	flags.DurationVar(&f.relay.Cache.Duration, "cache-duration", 30*time.Second, "keep objects for this `duration`")
	flags.IntVar(&f.cacheMiB, "cache-size", 256, "keep at most this many `MiB` of objects")
	flags.StringVar(&f.scope, "scope", "one", "which sessions have tracks in common: one (all), path (those with the same path in their URL) or url (with the same authority, too)")
	flags.StringVar(&f.tokenFile, "auth-token-file", "", "`file` with authorization tokens and what they allow; without it anybody may do everything")
	flags.IntVar(&f.relay.MaxSessions, "max-sessions", 16384, "largest `number` of sessions")
	flags.IntVar(&f.relay.MaxTracks, "max-tracks", 65536, "largest `number` of tracks that are published, wanted or cached")
	flags.DurationVar(&f.transport.IdleTimeout, "idle-timeout", 30*time.Second, "end connections that are silent for this `duration`")

	flags.StringVar(&f.fastPath.Mode, "fastpath", "auto", "forward media in the kernel: auto, on (fail if that is not possible) or off")
	flags.StringSliceVar(&f.fastPath.Devices, "device", nil, "network `devices` for --fastpath (default: those that lead to the listening address)")
	flags.IntVar(&f.budget, "fastpath-budget", fastpath.DefaultMaxCopies, fmt.Sprintf("largest `number` of subscribers of one track that the kernel serves, at most %d", fastpath.MaxSubscriptions))

	flags.StringVar(&f.drop, "drop", "none", "what a congested subscriber does without: priority (what is least urgent, while data waits too long) or none")

	flags.DurationVar(&f.drain, "drain", 10*time.Second, "sessions may live on for this `duration` after SIGTERM")
	flags.StringVar(&f.drainURI, "drain-uri", "", "`URL` of another relay to which peers are sent after SIGTERM")
	flags.StringVar(&f.admin, "admin", "127.0.0.1:4480", "TCP `address` for sluice relay status, /metrics (Prometheus), /healthz and /readyz; '' for none")
	flags.BoolVar(&f.pprof, "admin-pprof", false, "serve Go profiles at the admin address, too")
	cmd.MarkFlagsMutuallyExclusive("dev", "tls-cert")
	cmd.MarkFlagsMutuallyExclusive("dev", "tls-key")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
}

func (f *relayFlags) run(ctx context.Context, env *cli.Environment) error {
	coarsenTimers()
	cfg, certificate, err := f.config()
	if err != nil {
		return err
	}
	s, err := listenRelay(cfg)
	if err != nil {
		return explainListen(err, f.listen)
	}
	a, err := f.openAdmin(s)
	if err != nil {
		return errors.Join(err, s.drain("", 0))
	}
	f.greet(env.Stdout, s, a, certificate)
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	go feedWatchdog(context.WithoutCancel(stopped), s.alive)
	f.setReady(a, true)
	notifySystemd(daemon.SdNotifyReady)
	err = s.serve(stopped)

	f.setReady(a, false)
	notifySystemd(daemon.SdNotifyStopping)
	slog.Info("draining", "for at most", f.drain)
	err = errors.Join(err, s.drain(f.drainURI, f.drain))
	if a != nil {
		err = errors.Join(err, a.close())
	}
	slog.Info("ended")
	return err
}

var scopes = map[string]relay.Scoping{"one": relay.OneScope, "path": relay.ScopeByPath, "url": relay.ScopeByURL}

// config checks the flags. certificate describes the one that --dev made.
func (f *relayFlags) config() (cfg relayServerConfig, certificate string, err error) {
	f.transport.Logger, f.relay.Logger = slog.Default(), slog.Default()
	switch {
	case f.cacheMiB < 0 || f.relay.Cache.Duration < 0 || f.drain < 0:
		return cfg, "", cli.Usage("--cache-size, --cache-duration and --drain must not be negative")
	case f.relay.MaxSessions < 1 || f.relay.MaxTracks < 1:
		return cfg, "", cli.Usage("--max-sessions and --max-tracks have to be at least 1")
	case f.fastPath.Mode != "auto" && f.fastPath.Mode != "on" && f.fastPath.Mode != "off":
		return cfg, "", cli.Usage("--fastpath %q: it is auto, on or off", f.fastPath.Mode)
	case f.budget < 1 || f.budget > fastpath.MaxSubscriptions:
		return cfg, "", cli.Usage("--fastpath-budget has to be 1 to %d; --fastpath off turns the fast path off", fastpath.MaxSubscriptions)
	case scopes[f.scope] == nil:
		return cfg, "", cli.Usage("--scope %q: it is one, path or url", f.scope)
	case f.drop != "priority" && f.drop != "none":
		return cfg, "", cli.Usage("--drop %q: it is priority or none", f.drop)
	case !f.dev && f.transport.CertFile == "":
		return cfg, "", cli.Usage("a certificate is required: --tls-cert FILE --tls-key FILE, or --dev to try things out")
	}
	if f.drainURI != "" {
		if _, err := transport.ParseURL(f.drainURI); err != nil {
			return cfg, "", cli.Usage("--drain-uri: %w", err)
		}
	}
	f.relay.Scope = scopes[f.scope]
	f.relay.Cache.Size = int64(f.cacheMiB) << 20
	if f.cacheMiB == 0 || f.relay.Cache.Duration == 0 {
		f.relay.Cache.Duration = -1 // nothing is kept
	}
	f.transport.MaxConnections = f.relay.MaxSessions
	f.relay.FastPathPolicy, f.fastPath.Copies = relay.FastPathBudget(f.budget), f.budget
	if f.tokenFile != "" {
		if f.relay.Authorizer, err = relay.OpenTokenFile(f.tokenFile, slog.Default()); err != nil {
			return cfg, "", fmt.Errorf("--auth-token-file: %w", err)
		}
	}
	if f.dev {
		if certificate, err = f.makeCertificate(); err != nil {
			return cfg, "", err
		}
	}
	return relayServerConfig{Listen: f.listen, Transport: f.transport, Relay: f.relay, FastPath: f.fastPath, Drop: f.drop == "priority"}, certificate, nil
}

func (f *relayFlags) makeCertificate() (string, error) {
	cert, hash, err := transport.DevCertificate(f.devHosts...)
	if err != nil {
		return "", fmt.Errorf("--dev: %w", err)
	}
	f.transport.Certificate = &cert
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return "", fmt.Errorf("--dev: %w", err)
	}
	return fmt.Sprintf("%x (valid until %s)", hash, leaf.NotAfter.Format(time.DateOnly)), nil
}

func (f *relayFlags) openAdmin(s *relayServer) (*admin, error) {
	if f.admin == "" {
		return nil, nil
	}
	a, err := listenAdmin("--admin", f.admin, f.pprof, s)
	if err == nil {
		s.serveStatus(a.mux)
	}
	return a, err
}

func (f *relayFlags) setReady(a *admin, ready bool) {
	if a != nil {
		a.ready.Store(ready)
	}
}

// greet says where the relay is.
func (f *relayFlags) greet(w io.Writer, s *relayServer, a *admin, certificate string) {
	addr := s.listener.Addr().(*net.UDPAddr)
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

// hostFor names the host in a URL that reaches this machine from itself.
func hostFor(ip net.IP) string {
	if ip.IsUnspecified() || ip == nil {
		return "localhost"
	}
	return ip.String()
}

// explainListen says what to do about an address that cannot be used.
func explainListen(err error, addr string) error {
	switch text := err.Error(); {
	case strings.Contains(text, "address already in use"):
		return fmt.Errorf("%w: is another relay running? choose another port with --listen", err)
	case strings.Contains(text, "permission denied") && !strings.Contains(text, ".pem"):
		return fmt.Errorf("%w: ports below 1024 need the capability CAP_NET_BIND_SERVICE, as dist/sluice-relay.service gives it", err)
	}
	return err
}
