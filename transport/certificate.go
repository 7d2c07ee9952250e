package transport

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// certCheckInterval is how often certificate files are checked for changes at most.
const certCheckInterval = time.Second

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
		files := &certFiles{cert: cfg.CertFile, key: cfg.KeyFile, log: log, now: time.Now}
		if err := files.reloadLocked(); err != nil {
			return nil, nil, err
		}
		conf.GetCertificate = files.get
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

// certFiles is a certificate and its key in PEM files. They are read again when one of them has changed; until a
// matching pair can be read, the last one stays in use.
type certFiles struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu      sync.Mutex // guards the fields below
	checked time.Time
	seen    [2]os.FileInfo // of cert and key
	current *tls.Certificate
}

func (f *certFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.checked) >= certCheckInterval {
		f.checked = now
		if changed, err := f.changedLocked(); changed {
			if err == nil {
				err = f.reloadLocked()
			}
			if err != nil {
				f.log.Error("cannot reload the TLS certificate; the old one stays in use", "err", err)
			} else {
				f.log.Info("reloaded the TLS certificate", "file", f.cert)
			}
		}
	}
	return f.current, nil
}

// changedLocked reports whether the files have changed since the last call.
func (f *certFiles) changedLocked() (changed bool, err error) {
	for i, name := range []string{f.cert, f.key} {
		info, statErr := os.Stat(name)
		if statErr != nil {
			info, err = nil, statErr
		}
		changed = changed || !sameFile(f.seen[i], info)
		f.seen[i] = info
	}
	return changed, err
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// reloadLocked reads the files. Before there is a certificate, no other goroutine has f, and no lock is needed.
func (f *certFiles) reloadLocked() error {
	if f.seen[0] == nil && f.current == nil { // before the files are read, so that no change is missed
		if _, err := f.changedLocked(); err != nil {
			return err
		}
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", f.cert, f.key, err)
	}
	f.current = &pair
	return nil
}
