package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"sluice/server/handover"
	"sluice/transport"
)

// devCertificate returns the certificate of --dev: from the process which this one replaces, so that clients which have
// pinned it connect again, or a new one. It returns nil without --dev.
func (f *relayFlags) devCertificate(from *handover.Takeover) (*tls.Certificate, error) {
	if !f.dev {
		return nil, nil
	}
	if from != nil {
		cert, err := from.Certificate()
		if err == nil && cert != nil && fits(cert, f.devHosts) {
			return cert, nil
		}
	}
	cert, _, err := transport.DevCertificate(f.devHosts...)
	return &cert, err
}

// fits reports whether a certificate has all names and is valid for at least a day.
func fits(cert *tls.Certificate, hosts []string) bool {
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil || time.Until(leaf.NotAfter) < 24*time.Hour {
		return false
	}
	return !slices.ContainsFunc(hosts, func(host string) bool { return leaf.VerifyHostname(host) != nil })
}

// fingerprint describes a certificate for those who pin it.
func fingerprint(cert *tls.Certificate) string {
	text := fmt.Sprintf("%x", sha256.Sum256(cert.Certificate[0]))
	if leaf, err := x509.ParseCertificate(cert.Certificate[0]); err == nil {
		text += leaf.NotAfter.Format(" (valid until 2006-01-02)")
	}
	return text
}
