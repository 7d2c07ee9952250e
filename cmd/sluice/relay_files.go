package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/spf13/pflag"

	"sluice/internal/cli"
)

// secretFiles are the settings that name files with secrets. Package auth looks at its own, which may have digests
// only.
var secretFiles = []string{
	"tls-key", "admin-token-file", "event-secret-file", "upstream-token-file", "upstream-key", "cluster-token-file",
	"cluster-key",
}

// openSecrets returns an error for each file with a secret that every user of this machine can read.
func openSecrets(flags *pflag.FlagSet) (errs []error) {
	for _, name := range secretFiles {
		file := flags.Lookup(name).Value.String()
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm()&0o007 == 0 {
			continue
		}
		errs = append(errs, cli.ExplainOrigin(flags, fmt.Errorf(
			"--%s: %s: mode %04o: must be one by which other users cannot read a secret: chmod o= %s", name, file,
			info.Mode().Perm(), file)))
	}
	return errs
}

// explainCertificate names the flag of a file with a certificate or key that cannot be used, if there is one: it begins
// with which. Otherwise it returns err.
func explainCertificate(which, cert, key string, err error) error {
	if cert == "" {
		return err
	}
	_, mistake := tls.LoadX509KeyPair(cert, key)
	if mistake == nil {
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](mistake); ok && at.Path == key {
		return fmt.Errorf("%s-key: %w", which, mistake)
	} else if ok {
		return fmt.Errorf("%s-cert: %w", which, mistake)
	}
	return fmt.Errorf("%s-cert: %s: must fit the key in %s: %w", which, cert, key, mistake)
}

// checkURL returns the mistake in the URL of a service, which may be missing.
func checkURL(flag, text string, check func(string) error) error {
	if text == "" || check(text) == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, check(text))
}

// checkOrigins returns the first mistake in web origins.
func checkOrigins(origins []string) error {
	for _, o := range origins {
		if u, err := url.Parse(o); err != nil || u.Scheme == "" || u.Host == "" || o != u.Scheme+"://"+u.Host {
			const want = "a scheme and a host, as browsers send them: https://player.example"
			return fmt.Errorf("--origin: %q: must be %s", o, want)
		}
	}
	return nil
}
