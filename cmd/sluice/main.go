// Command sluice relays live media over QUIC, publishes and plays it, and measures round-trip times.
//
// Each subcommand has a file of its own, which turns flags into the configuration of a package and reports what the
// package did. The relay itself is package server.
package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/packet"
	"sluice/moqt"
	"sluice/player/client"
	"sluice/player/pub"
	"sluice/player/sub"
)

var program = cli.Program{
	Name:  "sluice",
	Short: "A Media over QUIC relay, with a publisher and a player",
	Long:  "Sluice relays live media over QUIC (Media over QUIC Transport, drafts 16 and 18 to 22).",
	Commands: []func(*cli.Environment) *cobra.Command{
		newRelay, newPub, newSub, newCluster, newToken, newDoctor, newRTT,
	},
	Warning:  packet.Warning,
	ExitCode: exitCode,
}

func main() { os.Exit(cli.Main(program)) }

// exitCode returns the exit code for an error from the packages that the subcommands use.
func exitCode(err error) (code int, ok bool) {
	var (
		input   *pub.InputError
		media   *sub.MediaError
		output  *sub.OutputError
		connect *client.ConnectError
		refused *moqt.RequestError
	)
	switch {
	case errors.As(err, &input), errors.As(err, &media), errors.As(err, &output):
		return cli.ExitMedia, true
	case errors.Is(err, errDiffers):
		return cli.ExitDiffers, true
	case errors.As(err, &connect):
		return cli.ExitConnection, true
	case errors.As(err, &refused):
		return cli.ExitRefused, true
	}
	return 0, false
}
