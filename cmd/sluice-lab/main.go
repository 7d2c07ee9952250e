// Command sluice-lab shows and measures the relay in labs: hosts in network namespaces on one machine.
//
// It runs the relay, the publisher and the players as processes of the program sluice, which [cli.FindProgram] finds.
package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/packet"
	"sluice/player/pub"
)

const programName = "sluice-lab"

var program = cli.Program{
	Name:  programName,
	Short: "Labs, a demo and measurements for Sluice, a Media over QUIC relay",
	Long: `Build hosts and links on this machine, show Sluice in them, and measure it. The relay, the publisher and
the players are processes of the program sluice, which 'make build' puts beside this one.`,
	Warning: packet.Warning,
	Commands: []func(*cli.Environment) *cobra.Command{
		newLab, newDemo, newBench, newConform, newReplay, newSimulate, newEstimate, newForwarding,
		newBenchLoad, newBenchRelay, newBenchDescribe,
	},
	ExitCode: exitCode,
}

func main() { os.Exit(cli.Main(program)) }

// errDiffers fails a demo: a subscriber has received other media than was published.
var errDiffers = errors.New("the received media differs from the expected")

// exitNotHere is for moq-interop-runner.
const exitNotHere = 127

func exitCode(err error) (code int, ok bool) {
	input, connect := (*pub.InputError)(nil), (*connectError)(nil)
	switch {
	case errors.As(err, &input):
		return cli.ExitMedia, true
	case errors.As(err, &connect):
		return cli.ExitConnection, true
	case errors.Is(err, errNotHere):
		return exitNotHere, true
	case errors.Is(err, errDiffers):
		return cli.ExitDiffers, true
	}
	return 0, false
}
