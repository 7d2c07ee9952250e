package history

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"
)

// readRows is how many rows are read at a time. A row with its bins takes about 10 kB meanwhile.
const readRows = 64

// Read calls fn for each row of a history whose interval began at or after from and before to, file by file in the
// order of time. The row is fn's until it returns.
func Read(dir string, from, to time.Time, fn func(*Row) error) error {
	days, err := days(dir)
	if err != nil {
		return err
	}
	for _, day := range days {
		if !day.Before(to) {
			break
		}
		if !day.Add(oneDay + fileEvery).After(from) {
			continue
		}
		if err := readDay(dir, day, from, to, fn); err != nil {
			return err
		}
	}
	return nil
}

func readDay(dir string, day, from, to time.Time, fn func(*Row) error) error {
	d, err := lookAt(dir, day)
	if err != nil {
		return err
	}
	defer d.close()
	for _, f := range d.files {
		if !f.start.Before(to) || !f.end().After(from) {
			continue
		}
		err := f.read(func(r *Row) error {
			if r.Start.Before(from) || !r.Start.Before(to) {
				return nil
			}
			return fn(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read calls fn for each row of a file.
func (o openFile) read(fn func(*Row) error) error {
	r, err := newRowReader(o)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		rows, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for k := range rows {
			if err := fn(&rows[k]); err != nil {
				return err
			}
		}
	}
}

// rowReader reads the rows of a file.
type rowReader struct {
	*parquet.GenericReader[Row]
	path string
	rows []Row
	err  error // of the last read
}

func newRowReader(o openFile) (*rowReader, error) {
	p, err := o.table()
	if err != nil {
		return nil, err
	}
	return &rowReader{GenericReader: parquet.NewGenericReader[Row](p), path: o.path, rows: make([]Row, readRows)}, nil
}

// next returns the next rows, at least one, or io.EOF. They can be used until it is called again.
func (r *rowReader) next() ([]Row, error) {
	if r.err != nil {
		return nil, r.err
	}
	clear(r.rows) // slices of an earlier read must not be written to
	n, err := r.Read(r.rows)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s: %w", r.path, err)
	}
	r.err = err
	if n > 0 {
		return r.rows[:n], nil
	}
	return nil, r.err
}
