package history

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"sluice/rtt/report"
)

const (
	fileEvery = 10 * time.Minute
	maxRows   = 1 << 18 // that wait for their file
)

// Limits say how much a history keeps.
type Limits struct {
	Size int64         // bytes of all files, about
	Age  time.Duration // older files are removed; 0: only Size removes
}

// Writer writes a history. It is used on one goroutine at a time. A file that cannot be written is logged, and its rows
// are lost: measuring goes on.
type Writer struct {
	dir    string
	logger *slog.Logger
	rows   []Row
	keeper keeper
	lock   *os.File
}

// NewWriter makes the folder if it is not there. It has to be closed. A folder has one writer at a time.
func NewWriter(dir string, limits Limits, logger *slog.Logger) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	lock, err := lockFolder(dir, logger)
	if err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, logger: logger, keeper: keeper{dir: dir, limits: limits}, lock: lock}
	if err := w.keeper.begin(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// lockFolder locks a folder until the file that it returns is closed. Two writers would remove each other's files.
func lockFolder(dir string, logger *slog.Logger) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, fmt.Errorf("%s: another process writes to this history: give each one a folder of its own", dir)
	}
	if err != nil { // some network file systems have no locks of folders
		logger.Warn("the history cannot be locked: let only one process write to it", "folder", dir, "err", err)
	}
	return f, nil
}

// Interval adds the rows of an interval.
func (w *Writer) Interval(i *report.Interval) error {
	if len(w.rows) > 0 && w.ends(i) {
		w.write()
	}
	for n := range i.Prefixes {
		w.rows = append(w.rows, newRow(i, &i.Prefixes[n]))
	}
	return nil
}

// ends reports whether the file of the rows that wait ends before an interval. A file begins with its first row, by
// which readers find it.
func (w *Writer) ends(i *report.Interval) bool {
	start := w.rows[0].Start
	return i.Start.Sub(start) >= fileEvery || i.Start.Before(start) || len(w.rows)+len(i.Prefixes) > maxRows
}

// Close writes the rest.
func (w *Writer) Close() error {
	w.write()
	return w.lock.Close()
}

// write writes a file with the rows that wait.
func (w *Writer) write() {
	if len(w.rows) == 0 {
		return
	}
	path := newFile(w.dir, w.rows[0].Start).path
	err := create(path, w.rows)
	if err == nil {
		err = w.keeper.keep(w.rows[len(w.rows)-1].End)
	}
	if err != nil {
		w.logger.Error("the history is not complete", "err", err, "rows", len(w.rows))
	}
	w.rows = w.rows[:0]
}

// create creates a file with rows. It gets its name when all is on the disk.
func create(path string, rows []Row) error {
	part := path + unfinished
	out, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	err = parquet.Write(io.Writer(out), rows, parquet.Compression(&parquet.Zstd))
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}
