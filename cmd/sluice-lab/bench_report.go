package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/lab/bench/report"
	"sluice/lab/bench/result"
)

func newBenchReport(env *cli.Environment) *cobra.Command {
	var out string
	var all bool
	cmd := &cobra.Command{
		Use:     "report RESULTS.json",
		Short:   "Write the tables and plots of results again",
		Example: "  sluice-lab bench report --out docs/results docs/results/results.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := result.ReadFile(args[0])
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if err := report.Write(out, r, all); err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "written to %s\n", filepath.Join(out, "tables.md"))
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "bench-results", "`directory` for the tables and plots")
	cmd.Flags().BoolVar(&all, "all", false, "draw all plots, and not only those that the tables show")
	return cmd
}
