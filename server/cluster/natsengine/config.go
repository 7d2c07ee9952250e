package natsengine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"

	"sluice/transport"
)

// Config is the configuration that both engines have in common.
type Config struct {
	Cluster string // name of the cluster; other clusters are refused
	Node    string // name of the node
	Token   string // that all nodes have; for Dial, the password of the user Node. May be empty.
	TLS     TLS
	Logger  *slog.Logger
}

// TLS names the files with which a node proves that it is one. They may be replaced: the certificate and its key are
// read for each connection, and the authority when it has changed. The zero value is no TLS.
type TLS transport.MutualTLS

// Check returns the first mistake in the files.
func (t TLS) Check() error {
	_, err := t.config()
	return err
}

func (t TLS) isSet() bool { return t != TLS{} }

// config returns the configuration for both sides of a connection, or nil if there is no TLS.
func (t TLS) config() (*tls.Config, error) {
	if !t.isSet() {
		return nil, nil
	}
	if t.CAFile == "" || t.CertFile == "" || t.KeyFile == "" {
		return nil, errors.New("--cluster-ca, --cluster-cert and --cluster-key belong together")
	}
	pool, err := transport.ReadAuthorities(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--cluster-ca: %w", err)
	}
	if _, err := t.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.load() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.load() },
	}, nil
}

func (t TLS) load() (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--cluster-cert, --cluster-key: %w", err)
	}
	return &c, nil
}

// needed returns an error if an address can be reached by other machines, or is one of them, and there is no TLS.
func (t TLS) needed(flag, hostPort string) error {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return fmt.Errorf("%s: %q: must be host:port", flag, hostPort)
	}
	if t.isSet() || isLoopback(host) {
		return nil
	}
	return fmt.Errorf("%s: %s: nodes on other machines must prove who they are: add --cluster-ca, --cluster-cert and "+
		"--cluster-key, or use an address of this machine, such as 127.0.0.1", flag, hostPort)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostPortOf returns the address of a URL of NATS.
func hostPortOf(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "4222")
}
