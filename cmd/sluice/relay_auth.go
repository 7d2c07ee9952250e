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

	metrics []prometheus.Collector // of the schemes, set by authorizer
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
// and only about what the other schemes do not allow.
func (f *authFlags) authorizer() (relay.Authorizer, error) {
	var all auth.Any
	for _, s := range []struct {
		flag, value string
		open        func() (relay.Authorizer, error)
	}{
		{"--auth-token-file", f.tokenFile, f.openTokenFile},
		{"--auth-jwks", f.jwks, f.openJWT},
		{"--auth-cat-keys", f.catKeys, f.openCAT},
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

func (f *authFlags) openJWT() (relay.Authorizer, error) { return f.openSigned(jwt.Format{}, f.jwks) }

func (f *authFlags) openCAT() (relay.Authorizer, error) { return f.openSigned(cat.Format{}, f.catKeys) }

// openSigned returns a scheme of signed tokens, with the keys of a file or URL.
func (f *authFlags) openSigned(format signed.Format, source string) (relay.Authorizer, error) {
	keys, err := signed.OpenKeys(source, slog.Default())
	if err != nil {
		return nil, err
	}
	return signed.New(format, keys, f.rules)
}

func (f *authFlags) openHook() (relay.Authorizer, error) { return hook.New(f.hook) }
