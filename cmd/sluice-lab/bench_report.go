package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/bench/report"
	"sluice/internal/bench/result"
	"sluice/internal/bounds"
	"sluice/internal/cli"
)

func newBenchCompare(env *cli.Environment) *cobra.Command {
	var failAbove float64
	cmd := &cobra.Command{
		Use:   "compare BEFORE.json AFTER.json",
		Short: "Compare the results of two runs",
		Long: `Compare the medians of two results files, metric by metric. A change exceeds the spread if the ranges
of the runs before and after do not overlap; other changes are noise. A single run has no spread to compare with.`,
		Example: `  sluice-lab bench compare old/results.json bench-results/results.json
  sluice-lab bench compare --fail-above 10 old/results.json bench-results/results.json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := bounds.AtLeast("--fail-above", failAbove, 0); err != nil {
				return cli.AsUsage(err)
			}
			reports, err := readReports(args)
			if err != nil {
				return err
			}
			c := result.Compare(reports[0], reports[1])
			if err := c.Write(env.Stdout); err != nil {
				return err
			}
			if worse := c.Worse(failAbove); cmd.Flags().Changed("fail-above") && len(worse) > 0 {
				return fmt.Errorf("%d metrics got worse by more than %g %%, beyond the spread of the runs",
					len(worse), failAbove)
			}
			return nil
		},
	}
	cmd.Flags().Float64Var(&failAbove, "fail-above", 0,
		"fail if a metric got worse by more than `percent`, beyond the spread of the runs (default: do not fail)")
	return cmd
}

func newBenchReport(env *cli.Environment) *cobra.Command {
	var out string
	var tables bool
	cmd := &cobra.Command{
		Use:   "report RESULTS.json...",
		Short: "Draw results again, or join the results of several runs",
		Long: `Write report.html, tables.md and plots from results files. Several files of one program and one
machine are joined, for example runs of single scenarios; then the joined results.json is written too.`,
		Example: `  sluice-lab bench report --out all delay/results.json capacity/results.json
  sluice-lab bench report --tables --out docs/results docs/results/results.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			reports, err := readReports(args)
			if err != nil {
				return err
			}
			merged, err := result.Merge(reports...)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			var joined error
			if len(reports) > 1 {
				joined = merged.WriteFile(filepath.Join(out, "results.json"))
			}
			write, file := report.Write, "report.html"
			if tables {
				write, file = report.WriteTables, "tables.md"
			}
			if err := errors.Join(joined, write(out, merged)); err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "written to %s\n", filepath.Join(out, file))
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "bench-results", "`directory` for the report")
	cmd.Flags().BoolVar(&tables, "tables", false, "write only tables.md and the plots that it shows, as SVG")
	return cmd
}

func readReports(paths []string) ([]result.Report, error) {
	var out []result.Report
	for _, path := range paths {
		r, err := result.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
