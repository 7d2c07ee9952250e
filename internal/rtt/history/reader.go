package history

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
)

// readRows is how many rows are read at a time. A row with its bins takes about 10 kB meanwhile.
const readRows = 64

// Read calls fn for each row of a history whose interval began at or after from and before to, file by file in the
// order of time. The row is fn's until it returns. Files that a writer removes meanwhile are left out.
func Read(dir string, from, to time.Time, fn func(*Row) error) error {
	list, err := files(dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		if !f.start.Before(to) || !f.end().After(from) {
			continue
		}
		err := f.read(func(r *Row) error {
			if r.Start.Before(from) || !r.Start.Before(to) {
				return nil
			}
			return fn(r)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
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
	table, err := parquet.OpenFile(in, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	r := parquet.NewGenericReader[Row](table)
	defer r.Close()
	rows := make([]Row, readRows)
	for {
		clear(rows) // slices of an earlier read must not be written to
		n, err := r.Read(rows)
		for k := range rows[:n] {
			if err := fn(&rows[k]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
}
