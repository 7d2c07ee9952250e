package transport

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// serverKeys are secrets of a listener. They are derived from the certificate's key, so that another process with the
// same certificate has the same ones: after a restart clients notice at once that their connections have ended (RFC
// 9000 §10.3), and a process that replaces another one takes the tokens that the first has sent (§8.1.3).
//
// The key for stateless resets belongs to one port of one machine: other relays may have the same certificate, and
// would tell who asks them how to reset a connection that lives here (§21.11).
type serverKeys struct {
	reset *quic.StatelessResetKey
	token *quic.TokenGeneratorKey
}

// serverTLS makes the TLS configuration of a listener. It returns the certificate, too, or nil if there is none yet.
func serverTLS(cfg *ListenConfig, log *slog.Logger) (*tls.Config, *tls.Certificate, error) {
	conf := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: append(slices.Clone(cfg.Protocols), http3.NextProtoH3),

		KeyLogWriter: cfg.Inspection.KeyLog,
	}
	cert := cfg.Certificate
	switch {
	case cfg.GetCertificate != nil:
		conf.GetCertificate = cfg.GetCertificate
		cert, _ = cfg.GetCertificate(new(tls.ClientHelloInfo))
	case cert == nil:
		files, err := certFiles(cfg.CertFile, cfg.KeyFile, log)
		if err != nil {
			return nil, nil, err
		}
		conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return files.get(), nil }
		cert = files.current
	default:
		conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil }
	}
	if cfg.Mutual != nil {
		if err := cfg.Mutual.addTo(conf, log); err != nil {
			return nil, nil, err
		}
	}
	return conf, cert, nil
}

// deriveKeys derives the keys of the listener at a place, which names the machine and the port. Without a certificate
// there are none.
func deriveKeys(cert *tls.Certificate, place string) (keys serverKeys) {
	if cert == nil {
		return keys
	}
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil { // a key in hardware
		return keys
	}
	if b, err := hkdf.Key(sha256.New, der, nil, "sluice stateless reset "+place, len(keys.reset)); err == nil {
		keys.reset = (*quic.StatelessResetKey)(b)
	}
	if b, err := hkdf.Key(sha256.New, der, nil, "sluice address validation", len(keys.token)); err == nil {
		keys.token = (*quic.TokenGeneratorKey)(b)
	}
	return keys
}

// placeOf returns the place of a listener. Without the machine's name it is only the port.
func placeOf(addr *net.UDPAddr) string {
	host, _ := os.Hostname()
	return net.JoinHostPort(host, strconv.Itoa(addr.Port))
}
