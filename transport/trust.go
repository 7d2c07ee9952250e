package transport

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// clientTLS makes the TLS configuration of a client that connects to host.
func clientTLS(cfg *ClientConfig, host string, protocols []string) (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host, NextProtos: protocols,
		KeyLogWriter: cfg.Inspection.KeyLog,
	}
	switch {
	case cfg.Insecure:
		conf.InsecureSkipVerify = true
	case cfg.CertificateSHA256 != nil:
		conf.InsecureSkipVerify = true // in favour of:
		conf.VerifyConnection = func(s tls.ConnectionState) error {
			return verifyPinned(s.PeerCertificates[0], cfg.CertificateSHA256, time.Now())
		}
	case cfg.CAFile != "":
		authorities, err := ReadAuthorities(cfg.CAFile)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = authorities
	}
	certFile, keyFile := cfg.CertFile, cfg.KeyFile
	if m := cfg.Mutual; m != nil {
		if err := m.trust(conf, host); err != nil {
			return nil, err
		}
		certFile, keyFile = m.CertFile, m.KeyFile
	}
	if certFile != "" {
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

// verifyPinned accepts one certificate for as long as it is valid, as browsers do with serverCertificateHashes.
func verifyPinned(cert *x509.Certificate, hash []byte, now time.Time) error {
	if got := sha256.Sum256(cert.Raw); !bytes.Equal(got[:], hash) {
		return fmt.Errorf("the server's certificate has SHA-256 %x, want %x", got, hash)
	}
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return errors.New("the server's certificate has expired, or is not valid yet")
	}
	return nil
}
