// Package relayflags has the flags of commands that connect to a relay: whom to trust, who one is, and which version to
// speak.
package relayflags

import (
	"cmp"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/moqt"
	"sluice/transport"
)

// Flags are the values of the flags.
type Flags struct {
	token, caFile, sha256 string
	insecure              bool
	draft                 uint
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.token, "auth-token", "",
		"authorization `token`; SLUICE_AUTH_TOKEN is better, because other users cannot see it")
	flags.StringVar(&f.caFile, "tls-ca", "",
		"trust the certificate authorities in this PEM `file` instead of the system's")
	flags.StringVar(&f.sha256, "tls-sha256", "",
		"trust only the certificate with this SHA-256 `fingerprint`, which 'sluice relay --dev' prints")
	flags.BoolVar(&f.insecure, "tls-disable-verify", false,
		"trust any certificate (for tests only: anyone on the path can read and change everything)")
	flags.UintVar(&f.draft, "draft", 0,
		"speak only this `draft` of MoQT, 16, or 18 to 22; 0: the newest that the relay speaks")
	cmd.MarkFlagsMutuallyExclusive("tls-ca", "tls-sha256", "tls-disable-verify")
}

// Transport checks the flags and returns how to reach the relay. Without --draft it has no Protocols.
func (f *Flags) Transport() (cfg transport.ClientConfig, err error) {
	cfg = transport.ClientConfig{CAFile: f.caFile, Insecure: f.insecure, ClosingPeriod: transport.ClosingPeriod}
	if f.caFile != "" {
		if _, err = transport.ReadAuthorities(f.caFile); err != nil {
			return cfg, cli.Usage("--tls-ca: %w", err)
		}
	}
	if f.sha256 != "" {
		if cfg.CertificateSHA256, err = transport.ParseFingerprint(f.sha256); err != nil {
			return cfg, cli.Usage("--tls-sha256: %w", err)
		}
	}
	if f.draft != 0 {
		v, ok := moqt.ParseALPN(moqt.Version(f.draft).ALPN())
		if !ok {
			return cfg, cli.Usage("--draft: %d: must be 16, 18 to 22, or 0 for the newest", f.draft)
		}
		cfg.Protocols = []string{v.ALPN()}
	}
	return cfg, nil
}

// Tokens returns what authorizes sessions and requests: --auth-token, or else SLUICE_AUTH_TOKEN.
func (f *Flags) Tokens(env *cli.Environment) []moqt.Token {
	token := cmp.Or(f.token, env.Getenv("SLUICE_AUTH_TOKEN"))
	if token == "" {
		return nil
	}
	return []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(token)}}
}
