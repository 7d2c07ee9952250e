package main

import (
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
)

// newRTT returns the command that becomes sluice-rtt, a program of its own: it can be installed alone, and the relay
// does not carry its libraries.
func newRTT(*cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:                "rtt",
		Short:              "Measure the round-trip times of passing traffic (the program sluice-rtt)",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := cli.FindProgram("sluice-rtt")
			if err != nil {
				return err
			}
			return syscall.Exec(path, append([]string{"sluice rtt"}, args...), os.Environ())
		},
	}
}
