package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"sluice/auth/signed"
	"sluice/internal/cli"
)

func newTokenKeygen(env *cli.Environment) *cobra.Command {
	var algorithm string
	cmd := &cobra.Command{
		Use:   "keygen [flags] FILE",
		Short: "Make a key for tokens",
		Long: `Make a key. The private key is written to FILE, which only its owner can read. The public half is written
to standard output, as a JSON Web Key Set for sluice relay --auth-jwks and --auth-cat-keys.

A secret (HS256) is for Common Access Tokens only. It has no public half: the relay needs FILE itself.`,
		Example: `  sluice token keygen signer.jwk > keys.json
  sluice token keygen --alg HS256 secret.jwk`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return keygen(env.Stdout, algorithm, args[0]) },
	}
	cmd.Flags().StringVar(&algorithm, "alg", "EdDSA", "`algorithm`: EdDSA, ES256, RS256 or HS256")
	return cmd
}

func keygen(w io.Writer, algorithm, file string) error {
	key, err := signed.NewKey(algorithm)
	if err != nil {
		return cli.Usage("--alg: %w", err)
	}
	b, err := key.MarshalJSON()
	if err != nil {
		return err
	}
	if err := createSecret(file, append(b, '\n')); err != nil {
		return err
	}
	if signed.IsSecret(key) {
		return nil
	}
	public, err := json.MarshalIndent(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", public)
	return err
}

// createSecret writes a file that only its owner can read. It replaces none: a key that is lost cannot be made again.
func createSecret(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; choose another name, or remove it first", name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
