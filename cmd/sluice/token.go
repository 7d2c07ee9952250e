package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/cli"
)

func newToken(env *cli.Environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and explain signed authorization tokens",
		Long: `Make and explain signed tokens, which say what their bearer may do at a relay: JSON Web Tokens (JWT) and
Common Access Tokens (CAT). docs/auth.md describes them.`,
		Example: `  # a key; the relay gets the public half
  sluice token keygen signer.jwk > keys.json
  sluice relay --dev --auth-jwks keys.json

  # a token for a camera, and what it says
  sluice token new --key signer.jwk --publish live/camera --expires 24h > camera.token
  sluice token show --keys keys.json < camera.token
  SLUICE_AUTH_TOKEN=$(cat camera.token) sluice pub --relay moqt://localhost:4443 --namespace live/camera clip.mp4`,
	}
	cmd.AddCommand(newTokenKeygen(env), newTokenNew(env), newTokenShow(env))
	return cmd
}
