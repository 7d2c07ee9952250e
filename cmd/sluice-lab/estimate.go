package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/lab/sim/estimate"
)

// estimateFlags are the flags of sluice-lab estimate.
type estimateFlags struct {
	seeds int
	out   string
}

func newEstimate(env *cli.Environment) *cobra.Command {
	f := new(estimateFlags)
	cmd := &cobra.Command{
		Use:   "estimate",
		Short: "Say how well RTTs of QUIC can be told from when packets pass and how long they are",
		Long: `Have QUIC connections on simulated paths, estimate their RTTs from the times, directions and sizes of
their packets, and compare with the paths. A table says how far the estimates are from the truth, and in how many
periods of 20 s there is one; docs/epping.md explains it. Time is simulated: it takes some minutes.`,
		Example: `  sluice-lab estimate
  sluice-lab estimate --seeds 1 --out estimated`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run(env) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.seeds, "seeds", 5, "`number` of connections of each kind, with other losses and frames")
	flags.StringVar(&f.out, "out", "", "also write results.json, tables.md and plots into a `directory`")
	return cmd
}

// run does not return, unless a flag is wrong.
func (f *estimateFlags) run(env *cli.Environment) error {
	if err := bounds.Check("--seeds", f.seeds, 1, maxSeeds); err != nil {
		return cli.AsUsage(err)
	}
	return inVirtualTime("Estimate", func(t *testing.T) error {
		found := estimate.Compare(t, estimate.Cases(), f.seeds)
		shown := map[string][]string{"estimate": {"error.p50", "error.p90", "found"}}
		if err := present(env, found, shown, f.out); err != nil {
			return err
		}
		os.Exit(cli.ExitOK) // a test that passes would say so
		return nil
	})
}
