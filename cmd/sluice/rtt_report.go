package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/rtt/history"
	"sluice/internal/rtt/page"
)

// reportFlags are the flags of sluice rtt report.
type reportFlags struct {
	query historyFlags
	out   string
	worst int
}

func newRTTReport(env *cli.Environment) *cobra.Command {
	f := new(reportFlags)
	cmd := &cobra.Command{
		Use:   "report DIRECTORY",
		Short: "Write what a history tells, as one HTML page",
		Long: `Read the history that sluice rtt --history keeps in a directory, and write one HTML page without scripts:
percentiles over time, the hours of each day, the worst prefixes, and when medians went up or down and stayed there.`,
		Example: `  sluice rtt report /var/lib/sluice-rtt --since 7d -o week.html
  sluice rtt report /var/lib/sluice-rtt --since 9d --until 2d --prefix customer-a -o before.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return f.run(env, args[0]) },
	}
	f.query.register(cmd.Flags(), "7d")
	cmd.Flags().StringVarP(&f.out, "out", "o", "-", "write the page to this `file`; - is standard output")
	cmd.Flags().IntVar(&f.worst, "worst", 20, "show this `number` of prefixes")
	return cmd
}

func (f *reportFlags) run(env *cli.Environment, dir string) error {
	q, err := f.query.parse()
	if err := cmp.Or(err, bounds.Check("--worst", f.worst, 1, 1000)); err != nil {
		return cli.AsUsage(err)
	}
	s, err := history.Summarize(dir, q.at(time.Now()), f.worst)
	if err != nil {
		return explainEmpty(dir, err)
	}
	if f.out == "-" {
		return page.Write(env.Stdout, s)
	}
	return writeTo(f.out, func(w io.Writer) error { return page.Write(w, s) })
}

// writeTo writes a file.
func writeTo(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
