package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/limited"
	"sluice/server"
	"sluice/server/acme"
)

// acmeFlags are the flags of certificates that an authority issues.
type acmeFlags struct {
	acme.Config // flags set it directly
	http        string
	manager     *acme.Manager // nil: none
}

func (f *acmeFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Names, "acme", nil,
		"host `names` to get certificates for, and to renew them, instead of --tls-cert: from an authority that "+
			"speaks ACME, such as Let's Encrypt, whose terms this accepts; it must reach the web page by these "+
			"names, at TCP port 443")
	flags.StringVar(&f.Email, "acme-email", "", "email `address` by which the authority can reach you (default: none)")
	flags.StringVar(&f.Directory, "acme-ca", acme.DefaultDirectory, "`URL` of the authority's directory")
	flags.StringVar(&f.RootFile, "acme-ca-root", "",
		"PEM `file` with the authorities to trust at the URL of --acme-ca, instead of the system's")
	flags.StringVar(&f.Dir, "acme-dir", "/var/lib/sluice-relay",
		"`directory` for keys, certificates and the account; relays with the same names can share it")
	flags.StringVar(&f.http, "acme-http", "",
		"TCP `address`, such as :80, where the authority can look too, by HTTP (default: none)")
}

func (f *acmeFlags) isOn() bool { return len(f.Names) > 0 }

// check returns the first mistake in the flags. others reports whether the relay gets its certificate otherwise.
func (f *acmeFlags) check(others bool, page *webFlag) error {
	if !f.isOn() {
		return nil
	}
	for i, name := range f.Names {
		ascii, err := acme.CheckName(name)
		if err != nil {
			return fmt.Errorf("--acme: %w", err)
		}
		f.Names[i] = ascii
	}
	u, err := url.Parse(f.Directory)
	switch {
	case others:
		return fmt.Errorf("--acme: %q: must not be set together with --tls-cert or --dev", f.Names)
	case err != nil || u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("--acme-ca: %q: must be the https URL of a directory", f.Directory)
	case page.isOff() && f.http == "":
		return errors.New("--web: off: must be on with --acme, unless there is --acme-http: the authority looks at " +
			"one of their TCP ports")
	case f.http != "":
		return bounds.Address("--acme-http", f.http, "an address such as :80")
	}
	return nil
}

// open reads the certificates that there are, and configures a server to show them.
func (f *acmeFlags) open(c *server.Config) (err error) {
	if !f.isOn() {
		return nil
	}
	if f.manager, err = acme.Open(f.Config); err != nil {
		return fmt.Errorf("--acme: %w; see --acme-dir and --acme-ca-root", err)
	}
	c.Transport.GetCertificate = f.manager.Certificate
	return nil
}

// serveACME has certificates issued, and opens the port of --acme-http. Both end with the function that it returns.
func (f *relayFlags) serveACME(page *webPage) (stop func(), err error) {
	manager, server := f.acme.manager, new(http.Server)
	if manager == nil {
		return func() {}, nil
	}
	var alpn, plain *net.TCPAddr
	if page != nil {
		alpn = page.Addr()
	}
	if f.acme.http != "" {
		l, err := listenWeb(f.acme.http, f.control != "")
		if err != nil {
			return nil, fmt.Errorf("--acme-http: %w", err)
		}
		plain = l.Addr().(*net.TCPAddr)
		server.Handler, server.ReadTimeout, server.WriteTimeout = manager.HTTPHandler(), 5*time.Second, 5*time.Second
		server.MaxHeaderBytes = 16 << 10
		server.ErrorLog = slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug) // about peers
		go func() { _ = server.Serve(limited.NewListener(l, 256, 16)) }()
	}
	if alpn == nil && plain == nil {
		return nil, errors.New("--acme: the authority has no TCP port to look at: free the port of the web page, or " +
			"set --web or --acme-http")
	}
	manager.Start(alpn, plain)
	return func() { manager.Close(); _ = server.Close() }, nil
}

// certificateEnds returns a metric for each name of a relay; without names, for the certificate that all clients see.
func certificateEnds(
	get func(*tls.ClientHelloInfo) (*tls.Certificate, error), names []string,
) (all []prometheus.Collector) {
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_certificate_end_time_seconds", ConstLabels: prometheus.Labels{"name": name},
			Help: "Unix time at which the certificate of a name of --acme ends, 0 without one; otherwise the name is " +
				"empty.",
		}, func() float64 {
			cert, err := get(&tls.ClientHelloInfo{ServerName: name})
			if err != nil {
				return 0
			}
			leaf, err := x509.ParseCertificate(cert.Certificate[0])
			if err != nil || name != "" && leaf.VerifyHostname(name) != nil {
				return 0
			}
			return float64(leaf.NotAfter.Unix())
		}))
	}
	return all
}
