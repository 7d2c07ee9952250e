package history

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"sluice/internal/rtt/report"
)

const (
	fileEvery  = 10 * time.Minute
	maxRows    = 1 << 18 // that wait for their file
	suffix     = ".parquet"
	unfinished = ".part"
	nameFormat = "20060102T150405.000000Z" // of the first interval's start, so that names sort by time
)

// Writer writes a history. It implements [report.Sink]. It is used on one goroutine at a time. A file that cannot be
// written is logged, and its rows are lost: measuring goes on.
type Writer struct {
	dir    string
	limit  int64
	logger *slog.Logger
	rows   []Row
}

// NewWriter makes the folder if it is not there. The files in it take about limit bytes at most.
func NewWriter(dir string, limit int64, logger *slog.Logger) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"+unfinished))
	if err != nil {
		return nil, err
	}
	for _, name := range left { // of a process that was killed
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	w := &Writer{dir: dir, limit: limit, logger: logger}
	return w, w.shrink()
}

// Sample and Flow do nothing.
func (w *Writer) Sample(*report.Sample) error  { return nil }
func (w *Writer) Flow(*report.FlowEvent) error { return nil }

// Flush does nothing: it comes too often for a file.
func (w *Writer) Flush() error { return nil }

// Interval takes what was aggregated.
func (w *Writer) Interval(i *report.Interval) error {
	if len(w.rows) > 0 && (i.Start.Sub(w.rows[0].Start) >= fileEvery || len(w.rows)+len(i.Prefixes) > maxRows) {
		w.write()
	}
	for n := range i.Prefixes {
		w.rows = append(w.rows, newRow(i, &i.Prefixes[n]))
	}
	return nil
}

// Close writes the rest.
func (w *Writer) Close() error {
	w.write()
	return nil
}

// write writes a file with the rows that wait.
func (w *Writer) write() {
	if len(w.rows) == 0 {
		return
	}
	name := filepath.Join(w.dir, w.rows[0].Start.Format(nameFormat)+suffix)
	err := writeFile(name+unfinished, w.rows)
	if err == nil {
		err = os.Rename(name+unfinished, name)
	}
	if err == nil {
		err = w.shrink()
	} else {
		os.Remove(name + unfinished)
	}
	if err != nil {
		w.logger.Error("the history is not complete", "error", err, "rows", len(w.rows))
	}
	w.rows = w.rows[:0]
}

func writeFile(name string, rows []Row) (err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return parquet.Write(file, rows, parquet.Compression(&parquet.Zstd))
}

// shrink removes the oldest files beyond the limit.
func (w *Writer) shrink() error {
	names, err := files(w.dir)
	if err != nil {
		return err
	}
	var sum int64
	for _, name := range slices.Backward(names) {
		info, err := os.Stat(name)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return err
		}
		if sum += info.Size(); sum <= w.limit {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// files returns the files of a history, the oldest first. Others in the folder are not touched.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, ok := startOf(e.Name()); ok && e.Type().IsRegular() {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil // ReadDir sorts
}

// startOf returns when the first interval in a file began.
func startOf(name string) (time.Time, bool) {
	stem, ok := strings.CutSuffix(filepath.Base(name), suffix)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(nameFormat, stem)
	return at, err == nil
}
