package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/auth"
	"sluice/auth/cat"
	"sluice/auth/hook"
	"sluice/auth/jwt"
	"sluice/auth/signed"
	"sluice/internal/bounds"
	"sluice/internal/webclient"
	"sluice/relay"
	"sluice/relay/withdrawn"
)

// authFlags are the flags of sluice relay about authorization. Several schemes together allow all that one of them
// allows.
type authFlags struct {
	tokenFile string
	jwks      string
	catKeys   string
	rules     signed.Rules
	hook      hook.Config
	withdrawn string

	// Set by authorizer.
	metrics []prometheus.Collector // of the schemes
	keys    []*signed.Keys
}

func (f *authFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.tokenFile, "auth-token-file", "",
		"`file` with authorization tokens and their permissions; without any --auth flag anybody may do everything")
	flags.StringVar(&f.jwks, "auth-jwks", "",
		"`file` or URL of a JSON Web Key Set, for JSON Web Tokens (JWT) with their permissions in scope")
	flags.StringVar(&f.catKeys, "auth-cat-keys", "",
		"`file` or URL of a JSON Web Key Set, for Common Access Tokens (CAT) with the moqt claim")
	flags.StringSliceVar(&f.rules.Issuers, "auth-issuer", nil,
		"accept only signed tokens of these `issuers` (default: of all whose key is in the set)")
	flags.StringSliceVar(&f.rules.Audiences, "auth-audience", nil,
		"`names` of this relay: a signed token must have one of them as audience (default: it must have none)")
	flags.StringVar(&f.hook.URL, "auth-url", "", "`URL` of an HTTP service that decides what peers may do")
	flags.DurationVar(&f.hook.Timeout, "auth-url-timeout", hook.DefaultTimeout,
		"refuse a request that --auth-url has not decided within this `duration`")
	flags.IntVar(&f.hook.MaxQueries, "auth-url-queries", hook.DefaultMaxQueries, fmt.Sprintf(
		"ask --auth-url for at most this `number` of decisions at a time, at most %d", hook.MaxQueries))
	flags.StringVar(&f.withdrawn, "auth-withdrawn-file", "",
		"`file` in which the relay keeps what sluice relay withdraw has withdrawn, over restarts and for all of its "+
			"processes (default: none)")
}

// keepWithdrawn makes the file and the list of withdrawn tokens the same, until the process ends.
func (f *authFlags) keepWithdrawn(list *withdrawn.List) error {
	if f.withdrawn == "" {
		return nil
	}
	file, err := withdrawn.Keep(list, f.withdrawn, slog.Default())
	if err != nil {
		return fmt.Errorf("--auth-withdrawn-file: %w", err)
	}
	go file.Run(context.Background())
	return nil
}

// check returns the first mistake in the flags.
func (f *authFlags) check() error {
	if f.jwks+f.catKeys == "" && len(f.rules.Issuers)+len(f.rules.Audiences) > 0 {
		return errors.New("--auth-issuer and --auth-audience are about signed tokens; " +
			"add --auth-jwks or --auth-cat-keys")
	}
	return cmp.Or(checkURL("--auth-url", f.hook.URL, webclient.CheckURL),
		bounds.Check("--auth-url-timeout", f.hook.Timeout, 100*time.Millisecond, time.Minute),
		bounds.Check("--auth-url-queries", f.hook.MaxQueries, 1, hook.MaxQueries))
}

// authorizer returns the Authorizer that the flags describe, or nil if there are none. The HTTP service is asked last,
// and only about what the other schemes do not allow. strict makes it an error if a URL with keys does not answer.
func (f *authFlags) authorizer(strict bool) (relay.Authorizer, error) {
	var all auth.Any
	for _, s := range []struct {
		flag, value string
		open        func() (relay.Authorizer, error)
	}{
		{"--auth-token-file", f.tokenFile, f.openTokenFile},
		{"--auth-jwks", f.jwks, f.openSigned(jwt.Format{}, f.jwks, strict)},
		{"--auth-cat-keys", f.catKeys, f.openSigned(cat.Format{}, f.catKeys, strict)},
		{"--auth-url", f.hook.URL, f.openHook},
	} {
		if s.value == "" {
			continue
		}
		scheme, err := s.open()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.flag, err)
		}
		all = append(all, scheme)
		if m, ok := scheme.(prometheus.Collector); ok {
			f.metrics = append(f.metrics, m)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

func (f *authFlags) openTokenFile() (relay.Authorizer, error) {
	return auth.OpenTokenFile(f.tokenFile, slog.Default())
}

// openSigned returns a function that opens a scheme of signed tokens, with the keys of a file or URL.
func (f *authFlags) openSigned(format signed.Format, source string, strict bool) func() (relay.Authorizer, error) {
	open := signed.AwaitKeys
	if strict {
		open = signed.OpenKeys
	}
	return func() (relay.Authorizer, error) {
		keys, err := open(source, slog.Default())
		if err != nil {
			return nil, err
		}
		f.keys = append(f.keys, keys)
		return signed.New(format, keys, f.rules)
	}
}

// awaits returns what the relay waits for before it can check tokens, or "".
func (f *authFlags) awaits() string {
	for _, k := range f.keys {
		if !k.Known() {
			return "waiting for the keys of authorization tokens"
		}
	}
	return ""
}

// readKeys reads the keys once, for the doctor.
func (f *authFlags) readKeys() error {
	for _, s := range []struct{ flag, source string }{{"--auth-jwks", f.jwks}, {"--auth-cat-keys", f.catKeys}} {
		if s.source == "" {
			continue
		}
		if _, err := signed.OpenKeys(s.source, slog.New(slog.DiscardHandler)); err != nil {
			return fmt.Errorf("%s: %w", s.flag, err)
		}
	}
	return nil
}

func (f *authFlags) openHook() (relay.Authorizer, error) { return hook.New(f.hook) }
