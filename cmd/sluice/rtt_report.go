package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/rtt/history"
	"sluice/internal/rtt/page"
)

// reportFlags are the flags of sluice rtt report.
type reportFlags struct {
	since string
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
		Example: "  sluice rtt report /var/lib/sluice-rtt --since 7d -o week.html",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return f.run(env, args[0]) },
	}
	cmd.Flags().StringVar(&f.since, "since", "7d", "begin this `time` ago, such as 90m, 12h or 7d")
	cmd.Flags().StringVarP(&f.out, "out", "o", "-", "write the page to this `file`; - is standard output")
	cmd.Flags().IntVar(&f.worst, "worst", 20, "show this `number` of prefixes")
	return cmd
}

func (f *reportFlags) run(env *cli.Environment, dir string) error {
	since, err := parseAgo(f.since)
	if err := cmp.Or(err, bounds.Check("--worst", f.worst, 1, 1000)); err != nil {
		return cli.AsUsage(err)
	}
	now := time.Now()
	s, err := history.Summarize(dir, now.Add(-since), now, f.worst)
	if errors.Is(err, history.ErrEmpty) {
		return fmt.Errorf("%s: %w: choose an earlier time with --since", dir, err)
	}
	if err != nil {
		return err
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

// parseAgo reads a duration, also in days.
func parseAgo(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(n * float64(24*time.Hour))
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--since: %q: must be a time such as 90m, 12h or 7d", text)
	}
	return d, nil
}
