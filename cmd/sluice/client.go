package main

import (
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/moqt"
	"sluice/player/client"
	"sluice/transport"
)

// clientFlags are the flags of commands that connect to a relay.
type clientFlags struct {
	relay, namespace string
	token            string
	caFile, sha256   string
	insecure         bool
	reconnect        time.Duration
	draft            uint
}

func (f *clientFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.relay, "relay", "", "`URL` of the relay: moqt://host:port for raw QUIC, "+
		"https://host:port/path for WebTransport (required)")
	flags.StringVar(&f.namespace, "namespace", "",
		"`namespace` of the broadcast, its fields separated by slashes (required)")
	flags.StringVar(&f.token, "auth-token", "",
		"authorization `token`; SLUICE_AUTH_TOKEN is better, because other users cannot see it")
	flags.StringVar(&f.caFile, "tls-ca", "",
		"trust the certificate authorities in this PEM `file` instead of the system's")
	flags.StringVar(&f.sha256, "tls-sha256", "",
		"trust only the certificate with this SHA-256 `fingerprint`, which 'sluice relay --dev' prints")
	flags.BoolVar(&f.insecure, "tls-disable-verify", false,
		"trust any certificate (for tests only: anyone on the path can read and change everything)")
	flags.DurationVar(&f.reconnect, "reconnect", client.DefaultReconnectTimeout,
		"when the session is lost, try for this `duration` to connect again; 0: not at all")
	flags.UintVar(&f.draft, "draft", 0,
		"speak only this `draft` of MoQT, 16, or 18 to 22; 0: the newest that the relay speaks")
	cmd.MarkFlagsMutuallyExclusive("tls-ca", "tls-sha256", "tls-disable-verify")
}

// config checks the flags and returns the configuration that they describe.
func (f *clientFlags) config(env *cli.Environment) (client.SessionConfig, moqt.Namespace, error) {
	transport.OfferStockSuites() // a relay with a fast path chooses ChaCha20-Poly1305 all the same
	cfg := client.SessionConfig{
		URL: f.relay,
		Transport: transport.ClientConfig{
			CAFile: f.caFile, Insecure: f.insecure, ClosingPeriod: transport.ClosingPeriod,
		},
		ReconnectTimeout: f.reconnect,
		Logger:           slog.Default(),
	}
	if f.reconnect <= 0 {
		cfg.ReconnectTimeout = -1
	}
	if f.relay == "" {
		return cfg, nil, cli.Usage("--relay is missing: the URL of the relay, such as moqt://localhost:4443")
	}
	if _, err := transport.ParseURL(f.relay); err != nil {
		return cfg, nil, cli.Usage("--relay: %w", err)
	}
	if f.sha256 != "" {
		var err error
		if cfg.Transport.CertificateSHA256, err = transport.ParseFingerprint(f.sha256); err != nil {
			return cfg, nil, cli.Usage("--tls-sha256: %w", err)
		}
	}
	if f.draft != 0 {
		v, ok := moqt.ParseALPN(moqt.Version(f.draft).ALPN())
		if !ok {
			return cfg, nil, cli.Usage("--draft: %d: must be 16, 18 to 22, or 0 for the newest", f.draft)
		}
		cfg.Transport.Protocols = []string{v.ALPN()}
	}
	if token := firstOf(f.token, env.Getenv("SLUICE_AUTH_TOKEN")); token != "" {
		cfg.Tokens = []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(token)}}
	}
	ns, err := parseNamespace(f.namespace)
	return cfg, ns, err
}

// parseNamespace splits a namespace at its slashes.
func parseNamespace(s string) (moqt.Namespace, error) {
	if s == "" {
		return nil, cli.Usage("--namespace is missing: the name of the broadcast, such as live/demo")
	}
	ns := moqt.Namespace(strings.Split(strings.Trim(s, "/"), "/"))
	if err := ns.Validate(); err != nil {
		return nil, cli.Usage("--namespace: %q: %w", s, err)
	}
	if ns.IsReserved() {
		return nil, cli.Usage("--namespace: %q: must not start with a period: such names are reserved", s)
	}
	return ns, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
