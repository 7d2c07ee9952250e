package natsengine

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// DialConfig is the configuration of a connection to NATS servers of the operator.
type DialConfig struct {
	Config
	URLs []string // nats://host:port or tls://host:port
}

// Dial connects to NATS servers. It does not fail if none answers now: it goes on trying.
func Dial(cfg DialConfig) (*Engine, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	e := newEngine(cfg.Logger)
	opts := append(e.options(cfg.Node), nats.RetryOnFailedConnect(true), nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings))
	if cfg.Token != "" {
		opts = append(opts, nats.UserInfo(cfg.Node, cfg.Token))
	}
	tlsConfig, err := cfg.TLS.config()
	if err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		opts = append(opts, nats.Secure(tlsConfig), nats.RootCAs(cfg.TLS.CAFile)) // reads the file for each connection
	}
	conn, err := nats.Connect(strings.Join(cfg.URLs, ","), opts...)
	if err != nil {
		return nil, fmt.Errorf("--cluster-url: %w", err)
	}
	if !conn.IsConnected() {
		cfg.Logger.Warn("no NATS server answers; the relay goes on without the cluster, and keeps trying",
			"urls", cfg.URLs)
	}
	return e, e.attach(conn, nil)
}

// Check returns the first mistake in the URLs.
func (c *DialConfig) Check() error {
	for _, text := range c.URLs {
		u, err := url.Parse(text)
		switch {
		case strings.Contains(text, "@"):
			return errors.New("--cluster-url: must have no password, which others on this machine could read; " +
				"use --cluster-token-file")
		case err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls":
			return fmt.Errorf("--cluster-url: %q: must be nats://host:port or tls://host:port", text)
		}
		if err := c.TLS.needed("--cluster-url", hostPortOf(u)); err != nil {
			return err
		}
	}
	return nil
}
