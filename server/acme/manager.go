// Package acme gets certificates from an authority that speaks ACME (RFC 8555), and renews them. CertMagic keeps keys,
// certificates and the account in a directory, which several relays may share: its locks let one of them at a time ask
// the authority for a name, and the others find the result. A [Manager] decides when to look, serves the old
// certificate until there is a new one, and says what happens.
package acme

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"sluice/transport"
)

// DefaultDirectory is the directory of Let's Encrypt.
const DefaultDirectory = certmagic.LetsEncryptProductionCA

// Config is the configuration of a [Manager]. Names, Directory and Dir are required.
type Config struct {
	Names     []string     // to get certificates for, one for each, as CheckName returns them
	Directory string       // the URL of the authority's directory
	Email     string       // where the authority can reach the operator. Default: nowhere.
	RootFile  string       // PEM, with authorities to trust at that URL. Default: the system's.
	Dir       string       // the folder for keys, certificates, locks and the account
	Logger    *slog.Logger // for messages that an operator can act on. Default: slog.Default().
}

// Manager has a certificate for each name, as soon as the authority has issued it. Its methods may be called on any
// goroutine.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	now     func() time.Time
	sleep   func(context.Context, time.Duration) // returns early when the context is done
	issuer  *certmagic.ACMEIssuer
	library *certmagic.Config // answers challenges, and is copied for each look
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu   sync.RWMutex
	held map[string]*tls.Certificate // by name
}

// Open returns a Manager that has the certificates in the folder. It asks the authority for others after Start.
func Open(cfg Config) (m *Manager, err error) {
	m = &Manager{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()), now: time.Now, sleep: sleep, stop: func() {},
		held: make(map[string]*tls.Certificate),
	}
	var roots *x509.CertPool
	if cfg.RootFile != "" {
		if roots, err = transport.ReadAuthorities(cfg.RootFile); err != nil {
			return nil, err
		}
	}
	details := zap.New(zapcore.NewCore(
		zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "message", NameKey: "name"}),
		zapcore.AddSync(slog.NewLogLogger(m.log.Handler(), slog.LevelDebug).Writer()), zap.DebugLevel))
	cache := m.newCache()
	defer cache.Stop() // challenges need none
	storage := &certmagic.FileStorage{Path: cfg.Dir}
	m.library = certmagic.New(cache, certmagic.Config{
		Storage: storage, OCSP: certmagic.OCSPConfig{DisableStapling: true}, Logger: details,
	})
	m.issuer = certmagic.NewACMEIssuer(m.library, certmagic.ACMEIssuer{
		CA: cfg.Directory, Agreed: true, TrustedRoots: roots, Logger: details,
		Email: cmp.Or(cfg.Email, " "), // the library asks at the terminal for an empty one
	})
	m.library.Issuers = []certmagic.Issuer{m.issuer}
	ctx := context.Background()
	if err := cmp.Or(storage.Store(ctx, "try", nil), storage.Delete(ctx, "try")); err != nil {
		return nil, err // the folder cannot be made, or written
	}
	return m, m.load()
}

// load takes the certificates in the folder.
func (m *Manager) load() error {
	for _, name := range m.cfg.Names {
		cert, err := m.look(name, func(c *certmagic.Config) error {
			_, err := c.CacheManagedCertificate(context.Background(), name)
			return err
		})
		if errors.Is(err, os.ErrNotExist) {
			m.log.Warn("there is no certificate yet: clients wait for the authority", "name", name,
				"ca", m.cfg.Directory)
			continue
		}
		if err != nil {
			return fmt.Errorf("certificate of %s in %s: %w", name, m.cfg.Dir, err)
		}
		m.held[name] = cert
		m.log.Info("certificate from storage", "name", name, "valid until", cert.Leaf.NotAfter)
	}
	return nil
}

func (m *Manager) newCache() *certmagic.Cache {
	return certmagic.NewCache(certmagic.CacheOptions{
		RenewCheckInterval: checkInterval, Logger: zap.NewNop(),
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return m.library, nil },
	})
}

// look returns the certificate that CertMagic has for a name after a call, even if that fails. CertMagic's cache lasts
// for the call only: it would renew its certificates by a clock of its own, which neither says when it tries again nor
// can be tested, and it would hide what another relay has renewed.
func (m *Manager) look(name string, call func(*certmagic.Config) error) (*tls.Certificate, error) {
	cache := m.newCache()
	defer cache.Stop()
	err := call(certmagic.New(cache, *m.library))
	if certs := cache.AllMatchingCertificates(name); len(certs) > 0 {
		return &certs[0].Certificate, err
	}
	return nil, cmp.Or(err, errors.New("the certificate that is stored has another name"))
}

// Certificate returns the certificate to show to a client, as [tls.Config] wants it: for a name that has none, and for
// clients that send no name, the certificate of the first name that has one. It answers the authority's challenges by
// TLS-ALPN-01 (RFC 8737) as well.
func (m *Manager) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{acmez.ACMETLS1Protocol}) {
		return m.library.GetCertificate(hello)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, name := range append([]string{strings.ToLower(hello.ServerName)}, m.cfg.Names...) {
		if cert := m.held[name]; cert != nil {
			return cert, nil
		}
	}
	return nil, errors.New("the authority has not issued a certificate yet")
}

// Start has certificates issued and renewed until Close is called. The authority looks for answers to its challenges at
// one TCP address, which shows clients of "acme-tls/1" what Certificate returns, or at another, which serves
// HTTPHandler; either may be nil.
func (m *Manager) Start(page, plain *net.TCPAddr) {
	m.issuer.DisableTLSALPNChallenge, m.issuer.DisableHTTPChallenge = page == nil, plain == nil
	// CertMagic would listen itself, but finds that the ports are in use.
	m.issuer.ListenHost = cmp.Or(page, plain).IP.String()
	if page != nil {
		m.issuer.AltTLSALPNPort = page.Port
	}
	if plain != nil {
		m.issuer.AltHTTPPort = plain.Port
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	for _, name := range m.cfg.Names {
		m.tasks.Go(func() { m.keep(ctx, name) })
	}
}

// HTTPHandler answers the authority's challenges by HTTP-01 (RFC 8555 §8.3), and all else by 404.
func (m *Manager) HTTPHandler() http.Handler {
	return m.issuer.HTTPChallengeHandler(http.NotFoundHandler())
}

// Close ends what Start has begun, and waits for that.
func (m *Manager) Close() {
	m.stop()
	m.tasks.Wait()
}

// keep looks after the certificate of a name until the context is done.
func (m *Manager) keep(ctx context.Context, name string) {
	failures := 0
	for ctx.Err() == nil {
		wait, err := checkInterval, m.check(ctx, name)
		if err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			wait = pause(err, failures)
			failures++
			m.log.Error("cannot get a certificate", "name", name, "err", explain(err), "next try", m.now().Add(wait))
		}
		m.sleep(ctx, wait)
	}
}

// check gets the certificate of a name, or renews it, if it is time for that or another relay has done so.
func (m *Manager) check(ctx context.Context, name string) error {
	cert, err := m.look(name, func(c *certmagic.Config) error { return c.ManageSync(ctx, []string{name}) })
	if cert == nil {
		return err
	}
	m.mu.Lock()
	old := m.held[name]
	m.held[name] = cert
	m.mu.Unlock()
	if old == nil {
		m.log.Info("certificate issued", "name", name, "valid until", cert.Leaf.NotAfter)
	} else if !bytes.Equal(old.Certificate[0], cert.Certificate[0]) {
		m.log.Info("certificate renewed", "name", name, "valid until", cert.Leaf.NotAfter)
	}
	return cmp.Or(err, checkClock(cert.Leaf, m.now()))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
