package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sluice/lab/bench/chart"
	"sluice/lab/bench/result"
)

// Write writes tables.md into a directory, and all plots as SVG. It does not write results.json.
func Write(dir string, r result.Report) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	plots := filepath.Join(dir, "plots")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	v := view{r}
	charts := v.charts()
	for _, c := range charts {
		path := filepath.Join(plots, c.ID+".svg")
		if err := writeFile(path, func(w io.Writer) error { return chart.Draw(w, c) }); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "tables.md"), func(w io.Writer) error { return v.writeTables(w, charts) })
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
