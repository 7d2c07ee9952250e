package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

const (
	// devCertValidity is below the two weeks that browsers allow a certificate that they trust by its hash
	// (W3C WebTransport, serverCertificateHashes).
	devCertValidity = 13 * 24 * time.Hour
	// devCertBackdate is how far clients' clocks may be behind.
	devCertBackdate = time.Hour
)

// DevCertificate makes a self-signed certificate for localhost, 127.0.0.1, ::1 and the given host names and IP
// addresses, with its SHA-256. Browsers accept it by that hash: ECDSA P-256, valid for less than 14 days.
func DevCertificate(hosts ...string) (cert tls.Certificate, hash [sha256.Size]byte, err error) {
	if cert, err = SelfSignedCertificate(devCertValidity, hosts...); err != nil {
		return cert, hash, fmt.Errorf("make a development certificate: %w", err)
	}
	return cert, sha256.Sum256(cert.Certificate[0]), nil
}

// SelfSignedCertificate makes a certificate for localhost, 127.0.0.1, ::1 and the given host names and IP addresses.
// Clients trust it by its SHA-256 only.
func SelfSignedCertificate(validity time.Duration, hosts ...string) (cert tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return cert, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "Sluice"},
		NotBefore:             now.Add(-devCertBackdate),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return cert, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// ParseFingerprint parses a SHA-256 in hexadecimal, with or without colons.
func ParseFingerprint(s string) ([]byte, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err != nil || len(b) != sha256.Size {
		return nil, fmt.Errorf("%q: must be a SHA-256 in 64 hexadecimal digits", s)
	}
	return b, nil
}
