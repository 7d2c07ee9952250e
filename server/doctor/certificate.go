package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"
)

const (
	soon        = 7 * 24 * time.Hour
	otherClock  = "certbot renew, or how you renew it; timedatectl set-ntp true, if the clock is wrong"
	otherIssuer = "cat cert.pem chain.pem >fullchain.pem, if only the issuer's certificate is missing"
)

// checkCertificate verifies the certificate as a client does that knows no intermediate certificates.
func checkCertificate(_ context.Context, m *Machine, r *report) (string, error) {
	switch {
	case len(m.ACME) > 0:
		return "--acme gets one", nil
	case m.CertFile == "":
		return "--dev makes one, for tests", nil
	}
	pair, err := tls.LoadX509KeyPair(m.CertFile, m.KeyFile)
	if errors.Is(err, fs.ErrPermission) {
		return "", err
	} else if err != nil {
		r.add(Wrong, "the relay does not start, or goes on with the certificate that it has", "",
			"%s, %s: %v", m.CertFile, m.KeyFile, err)
		return "", nil
	}
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	until := m.CertFile + ": until " + pair.Leaf.NotAfter.Format("2006-01-02 15:04 MST")
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, CurrentTime: m.now})
	switch bad, ok := errors.AsType[x509.CertificateInvalidError](err); {
	case ok && bad.Reason == x509.Expired:
		r.add(Wrong, "clients refuse it", otherClock, "%s: %v", m.CertFile, err)
	case err != nil:
		r.add(Better, "clients that do not know its issuer refuse it", otherIssuer, "%s: %v", m.CertFile, err)
	case m.now.Add(soon).After(pair.Leaf.NotAfter):
		r.add(Better, "then clients refuse it", otherClock, "%s", until)
	}
	if info, err := os.Stat(m.KeyFile); err == nil && info.Mode()&0o004 != 0 {
		r.add(Better, "every user of this machine can be this relay", "chmod o= "+m.KeyFile,
			"%s: all may read the key", m.KeyFile)
	}
	return until, nil
}

// checkNames looks up the names by which clients know the relay.
func checkNames(ctx context.Context, m *Machine, r *report) (string, error) {
	names := m.ACME
	if pair, err := tls.LoadX509KeyPair(m.CertFile, m.KeyFile); err == nil { // else checkCertificate has said so
		names = pair.Leaf.DNSNames
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, name := range names {
		if strings.HasPrefix(name, "*.") {
			continue
		}
		if _, err := m.resolve(ctx, name); err != nil {
			r.add(Better, "clients do not find the relay by this name", "resolvectl query "+name, "%v", err)
		}
	}
	return strings.Join(names, ", "), nil
}
