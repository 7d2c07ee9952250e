package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/internal/cli"
	"sluice/lab/bench/report"
	"sluice/lab/bench/result"
)

// origin returns the commit of this program, and the command that makes such a report again.
func origin(env *cli.Environment) (commit string, command []string) {
	return cli.Version(), slices.Concat([]string{programName}, env.Args)
}

// present prints a report without an origin, and writes it into a directory, if there is one.
func present(env *cli.Environment, r *result.Report, shown map[string][]string, dir string) error {
	r.Commit, r.Command = origin(env)
	printReport(env.Stdout, r, shown)
	if dir == "" {
		return nil
	}
	r.Date = time.Now().UTC().Truncate(time.Second)
	return writeReport(dir, r)
}

// writeReport writes results.json, tables.md and plots into a directory.
func writeReport(dir string, r *result.Report) error {
	return errors.Join(report.Write(dir, *r), r.WriteFile(filepath.Join(dir, "results.json")))
}

// printReport writes a table for each kind of scenario, with the metrics that shown lists.
func printReport(w io.Writer, r *result.Report, shown map[string][]string) {
	for _, kind := range r.Kinds() {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		system := "RELAY"
		if kind == result.KindForwarding {
			system = "MONITOR"
		}
		header := "\n" + strings.ToUpper(kind) + "\t" + system + "\tRUNS\t" +
			strings.Join(units(r, shown[kind]), "\t") + "\n"
		for _, s := range r.Scenarios {
			if s.Kind != kind {
				continue
			}
			fmt.Fprint(table, header)
			header = ""
			for _, sum := range s.Summaries {
				fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", s.Title, sum.System, sum.Runs,
					strings.Join(cells(sum, shown[kind]), "\t"))
			}
		}
		table.Flush()
	}
}

func units(r *result.Report, names []string) []string {
	var titles []string
	for _, n := range names {
		title := strings.ToUpper(n)
		if unit := r.Metrics[n].Unit; unit != "" {
			title += " [" + unit + "]"
		}
		titles = append(titles, title)
	}
	return titles
}

// cells returns the medians of metrics, or why there are none.
func cells(s result.Summary, names []string) []string {
	if s.Unusable != "" {
		reason, _, _ := strings.Cut(s.Unusable, "\n")
		return []string{reason}
	}
	var cells []string
	for _, n := range names {
		cell := "-"
		if v, ok := s.Metrics[n]; ok {
			cell = fmt.Sprintf("%.3g", v.Median)
			if v.Median >= 1000 {
				cell = fmt.Sprintf("%.0f", v.Median)
			}
		}
		cells = append(cells, cell)
	}
	return cells
}
