package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

const (
	suffix     = ".parquet"
	unfinished = ".part"
	nameFormat = "20060102T150405.000000Z" // of the first interval's start, so that names sort by time
)

// file is a file of a history.
type file struct {
	path  string
	start time.Time // of the first interval in it
}

// newFile returns the file whose first row began at a time. It need not be there.
func newFile(dir string, start time.Time) file {
	return file{filepath.Join(dir, start.UTC().Format(nameFormat)+suffix), start}
}

// parseName reads the name of a file.
func parseName(path string) (f file, ok bool) {
	stem, ok := strings.CutSuffix(filepath.Base(path), suffix)
	if !ok {
		return f, false
	}
	start, err := time.Parse(nameFormat, stem)
	return file{path, start}, err == nil
}

// end returns a time before which all of its rows began.
func (f file) end() time.Time { return f.start.Add(fileEvery) }

// size returns how many bytes a file has: 0 if it was removed meanwhile.
func (f file) size() (int64, error) {
	info, err := os.Stat(f.path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// files returns the files of a history, the oldest first. Others in the folder are not touched.
func files(dir string) (list []file, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if f, ok := parseName(filepath.Join(dir, e.Name())); ok && e.Type().IsRegular() {
			list = append(list, f)
		}
	}
	return list, nil // ReadDir sorts
}

// read calls fn for each row of a file.
func (f file) read(fn func(*Row) error) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	return f.readFrom(in, info.Size(), fn)
}

func (f file) readFrom(in io.ReaderAt, size int64, fn func(*Row) error) error {
	var r *parquet.GenericReader[Row]
	err := f.guard(func() error {
		table, err := parquet.OpenFile(in, size)
		if err == nil {
			r = parquet.NewGenericReader[Row](table)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = f.guard(r.Close) }()
	rows := make([]Row, readRows)
	for {
		clear(rows) // slices of an earlier read must not be written to
		n := 0
		err := f.guard(func() (err error) {
			n, err = r.Read(rows)
			return err
		})
		for k := range rows[:n] {
			if err := fn(&rows[k]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// guard calls the library, which panics at some damaged files, and returns an error that names the file.
func (f file) guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", f.path, err)
		}
	}()
	return call()
}
