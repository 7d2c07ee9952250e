package main

import (
	"fmt"
	"io"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"sluice/auth"
	"sluice/auth/cat"
	"sluice/auth/jwt"
	"sluice/auth/signed"
	"sluice/internal/bounds"
	"sluice/internal/cli"
)

// tokenFlags are the flags of sluice token new.
type tokenFlags struct {
	key, format string
	prefixes    map[string]*[]string // by the word of a permission
	expires     time.Duration
	claims      signed.Claims
}

func newTokenNew(env *cli.Environment) *cobra.Command {
	f := tokenFlags{prefixes: make(map[string]*[]string)}
	cmd := &cobra.Command{
		Use:   "new --key FILE --expires DURATION [--publish PREFIX] [--subscribe PREFIX] [--discover PREFIX]",
		Short: "Make a token",
		Long: `Make a token and write it to standard output. A PREFIX allows all namespaces that begin with it, such as
live/a; its fields are separated by slashes, with other bytes as %xx, and * is the prefix of all namespaces.

The token is a JSON Web Token, or a Common Access Token if the key is a secret or with --format cat.`,
		Example: `  sluice token new --key signer.jwk --expires 1h --publish live/a
  sluice token new --key signer.jwk --expires 12h --subscribe live --discover live --audience relay.example
  sluice token new --key secret.jwk --expires 24h --all '*' --revalidate 5m`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run(env.Stdout) },
	}
	f.register(cmd)
	return cmd
}

func (f *tokenFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "`file` with the private key, which sluice token keygen makes (required)")
	flags.StringVar(&f.format, "format", "", "`format` of the token: jwt or cat")
	flags.DurationVar(&f.expires, "expires", 0, "the token is valid for this `duration` (required)")
	flags.StringVar(&f.claims.Issuer, "issuer", "", "`name` of who makes the token: see sluice relay --auth-issuer")
	flags.StringSliceVar(&f.claims.Audiences, "audience", nil,
		"`names` of the relays that the token is for: see sluice relay --auth-audience")
	flags.StringVar(&f.claims.Subject, "subject", "", "`name` of whom the token is for")
	flags.DurationVar(&f.claims.Review, "revalidate", 0,
		"with --format cat: relays check the token of an open request again after this `duration`")
	for _, p := range []struct{ word, allows string }{
		{auth.Publish, "allow to publish in these namespaces"},
		{auth.Subscribe, "allow to subscribe to and fetch tracks in these namespaces"},
		{auth.Discover, "allow to ask which namespaces and tracks there are"},
		{auth.All, "allow all of this"},
	} {
		f.prefixes[p.word] = flags.StringSlice(p.word, nil, p.allows+": `prefixes`, separated by commas")
	}
}

func (f *tokenFlags) run(w io.Writer) error {
	permissions, err := f.permissions()
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return cli.AsUsage(err)
	}
	key, err := signed.ReadPrivateKey(f.key)
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	sign, err := f.signer(key)
	if err != nil {
		return cli.AsUsage(err)
	}
	f.claims.Expires = time.Now().Add(f.expires)
	token, err := sign(key, &f.claims, permissions)
	if err != nil {
		return err
	}
	if len(token) > signed.MaxToken {
		return fmt.Errorf("the token has %d bytes, and relays take at most %d; allow fewer prefixes",
			len(token), signed.MaxToken)
	}
	_, err = fmt.Fprintln(w, token)
	return err
}

// check returns the first mistake in the flags.
func (f *tokenFlags) check() error {
	switch {
	case f.key == "":
		return cli.Usage("--key is missing: the file with the private key; sluice token keygen makes one")
	case f.expires == 0:
		return cli.Usage("--expires is missing: how long the token is valid, such as 1h")
	}
	return bounds.AtLeast("--expires", f.expires, time.Second)
}

// permissions returns the permissions of the token.
func (f *tokenFlags) permissions() (all []auth.Permission, err error) {
	for _, word := range []string{auth.Publish, auth.Subscribe, auth.Discover, auth.All} {
		for _, text := range *f.prefixes[word] {
			prefix, err := auth.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("--%s: %w", word, err)
			}
			all = append(all, auth.Permission{Word: word, Prefix: prefix})
		}
	}
	if len(all) == 0 {
		return nil, cli.Usage("the token would allow nothing: add --publish, --subscribe, --discover or --all")
	}
	return all, nil
}

type signFunc func(*jose.JSONWebKey, *signed.Claims, []auth.Permission) (string, error)

// signer returns the function that makes a token in the format.
func (f *tokenFlags) signer(key *jose.JSONWebKey) (signFunc, error) {
	if f.format == "" {
		f.format = "jwt"
		if signed.IsSecret(key) {
			f.format = "cat"
		}
	}
	if err := bounds.OneOf("--format", f.format, "jwt", "cat"); err != nil {
		return nil, err
	}
	if f.format == "cat" {
		return cat.Sign, f.checkReview()
	}
	if f.claims.Review > 0 {
		return nil, cli.Usage("--revalidate needs --format cat: a JSON Web Token has no claim for it")
	}
	return jwt.Sign, nil
}

func (f *tokenFlags) checkReview() error {
	if f.claims.Review == 0 {
		return nil
	}
	return bounds.AtLeast("--revalidate", f.claims.Review, signed.MinReview)
}
