package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
)

// MutualTLS is how servers that belong together prove to each other who they are. It names PEM files: their own
// authority, and a certificate of that for both ends of a connection.
//
// A listener with it also has its public certificate, for all others, at the same port. A client with it asks for
// another server name, so the listener knows which of the two to show, and asks nobody else for a certificate. All
// files are read again when they have changed.
type MutualTLS struct {
	CAFile            string
	CertFile, KeyFile string
}

// mutualName is the server name (RFC 6066 §3) that clients with MutualTLS ask for, whatever the host is.
const mutualName = "mutual.sluice.internal"

func (m *MutualTLS) validate() error {
	if m.CAFile == "" || m.CertFile == "" || m.KeyFile == "" {
		return errors.New("mutual TLS needs an authority, a certificate and its key")
	}
	return nil
}

// addTo lets a listener accept connections with mutual TLS, besides its configuration's own.
func (m *MutualTLS) addTo(conf *tls.Config, log *slog.Logger) error {
	authority, err := authorityFile(m.CAFile, log)
	if err != nil {
		return err
	}
	files, err := certFiles(m.CertFile, m.KeyFile, log)
	if err != nil {
		return err
	}
	mutual := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: slices.Clone(conf.NextProtos),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return files.get(), nil },
		ClientAuth:     tls.RequireAndVerifyClientCert,
	}
	conf.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName != mutualName {
			return nil, nil
		}
		now := mutual.Clone()
		now.ClientCAs = authority.get()
		return now, nil
	}
	return nil
}

// trust makes a client accept only servers at a host with a certificate of the authority.
func (m *MutualTLS) trust(conf *tls.Config, host string) error {
	authority, err := ReadAuthorities(m.CAFile)
	if err != nil {
		return err
	}
	conf.ServerName = mutualName
	conf.InsecureSkipVerify = true // it would look for mutualName in the certificate; in favour of:
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		others := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			others.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(
			x509.VerifyOptions{DNSName: host, Roots: authority, Intermediates: others})
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
		}
		return nil
	}
	return nil
}

// ReadAuthorities returns the authorities in a PEM file.
func ReadAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no PEM certificate", file)
	}
	return pool, nil
}
