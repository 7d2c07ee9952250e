package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/internal/relayflags"
	"sluice/internal/cli"
	"sluice/moqt"
	"sluice/player/client"
	"sluice/transport"
)

// clientFlags are the flags of commands that connect to a relay.
type clientFlags struct {
	relayflags.Flags
	relay, namespace string
	reconnect        time.Duration
}

func (f *clientFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.relay, "relay", "", "`URL` of the relay: moqt://host:port for raw QUIC, "+
		"https://host:port/path for WebTransport (required)")
	flags.StringVar(&f.namespace, "namespace", "",
		"`namespace` of the broadcast, its fields separated by slashes (required)")
	flags.DurationVar(&f.reconnect, "reconnect", client.DefaultReconnectTimeout,
		"when the session is lost, try for this `duration` to connect again; 0: not at all")
	f.Register(cmd)
}

// config checks the flags and returns the configuration that they describe.
func (f *clientFlags) config(env *cli.Environment) (cfg client.SessionConfig, ns moqt.Namespace, err error) {
	transport.OfferStockSuites() // a relay with a fast path chooses ChaCha20-Poly1305 all the same
	cfg = client.SessionConfig{
		URL: f.relay, Tokens: f.Tokens(env), ReconnectTimeout: f.reconnect, Logger: slog.Default(),
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
	if cfg.Transport, err = f.Transport(); err != nil {
		return cfg, nil, err
	}
	ns, err = parseNamespace(f.namespace)
	return cfg, ns, err
}

// advise adds to an error what to do about it with the flags of a client.
func advise(err error) error {
	refused, isRefused := errors.AsType[*moqt.RequestError](err)
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case untrusted:
		return fmt.Errorf("%w: use --tls-ca, --tls-sha256 or, for tests only, --tls-disable-verify", err)
	case isRefused && refused.Code == moqt.RequestDoesNotExist:
		return fmt.Errorf("%w: start the publisher, or wait for it with --wait 1m", err)
	case isRefused && refused.Code == moqt.RequestUnauthorized:
		return fmt.Errorf("%w: a token that allows it belongs in SLUICE_AUTH_TOKEN", err)
	}
	return err
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
