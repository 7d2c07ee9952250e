package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/auth/cat"
	"sluice/auth/jwt"
	"sluice/auth/signed"
	"sluice/internal/cli"
	"sluice/moqt"
)

func newTokenShow(env *cli.Environment) *cobra.Command {
	var keys string
	cmd := &cobra.Command{
		Use:   "show [flags] [TOKEN|-]",
		Short: "Explain a token",
		Long: `Show what a token says: who made it, how long it is valid, and what it allows. The token is read from
standard input (the default, or "-"); as an argument it is visible to other users.

Without --keys the signature is not verified, and anybody may have made the token.`,
		Example: `  sluice token show < camera.token
  sluice token show --keys https://id.example/keys.json < camera.token`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := readToken(env.Stdin, args)
			if err != nil {
				return err
			}
			return showToken(cmd.Context(), env.Stdout, value, keys)
		},
	}
	cmd.Flags().StringVar(&keys, "keys", "", "verify the signature with the keys in this `file` or URL")
	return cmd
}

func readToken(stdin io.Reader, args []string) ([]byte, error) {
	if len(args) > 0 && args[0] != "-" {
		return []byte(args[0]), nil
	}
	b, err := io.ReadAll(io.LimitReader(stdin, signed.MaxToken+2)) // with a line end
	if trimmed := bytes.TrimSpace(b); len(trimmed) <= signed.MaxToken {
		return trimmed, err
	}
	return nil, fmt.Errorf("the token is longer than %d bytes, which no relay takes", signed.MaxToken)
}

// tokenFormats are the formats of signed tokens.
var tokenFormats = []struct {
	name   string
	format signed.Format
}{{"JSON Web Token", jwt.Format{}}, {"Common Access Token", cat.Format{}}}

func showToken(ctx context.Context, w io.Writer, value []byte, keys string) error {
	for _, f := range tokenFormats {
		if !f.format.Recognizes(moqt.Token{Value: value}) {
			continue
		}
		t, err := f.format.Parse(value)
		if err != nil {
			return err
		}
		c, err := t.Claims()
		if err != nil {
			return err
		}
		signature, err := verifyToken(ctx, t, keys)
		describeToken(w, f.name, t.KeyID(), signature, c)
		return err
	}
	return errors.New("not a signed token: neither a JSON Web Token nor a Common Access Token; " +
		"the permissions of other tokens are in the relay's --auth-token-file")
}

// verifyToken verifies a token with keys of a file or URL, and returns the result as text.
func verifyToken(ctx context.Context, t signed.Token, source string) (text string, err error) {
	if source == "" {
		return "not verified; name the keys with --keys", nil
	}
	keys, err := signed.OpenKeys(source, slog.New(slog.DiscardHandler))
	if err != nil {
		return "not verified", fmt.Errorf("--keys: %w", err)
	}
	found, _ := keys.Find(ctx, t.KeyID())
	if err := signed.Verify(t, found); err != nil {
		return "not valid", err
	}
	return "valid", nil
}

func describeToken(w io.Writer, format, keyID, signature string, c *signed.Claims) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if quoted := strconv.Quote(value); len(quoted) > len(value)+2 {
			value = quoted // a token that nobody has verified makes no lines of its own
		}
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	line("format", format)
	line("signature", signature)
	line("key", keyID)
	line("issuer", c.Issuer)
	line("subject", c.Subject)
	line("audience", strings.Join(c.Audiences, ", "))
	if !c.NotBefore.IsZero() {
		line("valid from", c.NotBefore.UTC().Format(time.RFC3339))
	}
	line("expires", expiryText(c.Expires, time.Now()))
	if c.Review > 0 {
		line("revalidated", "every "+c.Review.String())
	}
	for _, s := range c.Scopes {
		line("allows", s.String())
	}
	if len(c.Scopes) == 0 {
		line("allows", "nothing")
	}
	_ = table.Flush() // an error of stdout
}

func expiryText(expires, now time.Time) string {
	if expires.IsZero() {
		return "never"
	}
	text := expires.UTC().Format(time.RFC3339)
	if d := expires.Sub(now).Round(time.Second); d > 0 {
		return fmt.Sprintf("%s, in %v", text, d)
	}
	return text + ", expired"
}
