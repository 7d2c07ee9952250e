package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sluice/internal/bench/chart"
	"sluice/internal/bench/result"
)

// Write writes a report into a directory: report.html, which needs no network and no other file, tables.md, and all
// plots as SVG and PNG. It does not write results.json.
func Write(dir string, r result.Report) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	v := view{r}
	charts := v.charts()
	if err := writePlots(dir, charts, "svg", "png"); err != nil {
		return err
	}
	err := writeFile(filepath.Join(dir, "report.html"), func(w io.Writer) error { return v.writePage(w, charts) })
	if err != nil {
		return err
	}
	return v.writeTablesFile(dir, charts)
}

// WriteTables writes tables.md into a directory, and only those plots that it shows, as SVG: the form of a report
// that is kept in a repository.
func WriteTables(dir string, r result.Report) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	v := view{r}
	charts := v.charts()
	var shown []chart.Chart
	for _, kind := range v.Kinds() {
		shown = append(shown, firstOfFigures(kind, charts)...)
	}
	if err := writePlots(dir, shown, "svg"); err != nil {
		return err
	}
	return v.writeTablesFile(dir, charts)
}

func (v view) writeTablesFile(dir string, charts []chart.Chart) error {
	return writeFile(filepath.Join(dir, "tables.md"), func(w io.Writer) error { return v.writeTables(w, charts) })
}

// writePlots draws each chart in each format into the directory plots.
func writePlots(dir string, charts []chart.Chart, formats ...string) error {
	dir = filepath.Join(dir, "plots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range charts {
		for _, format := range formats {
			path := filepath.Join(dir, c.ID+"."+format)
			if err := writeFile(path, func(w io.Writer) error { return chart.Draw(w, format, c) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}
