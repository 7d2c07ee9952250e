package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Read calls fn for each row of a history whose interval began at or after from and before to, file by file in the
// order of time. The row is fn's until it returns.
func Read(dir string, from, to time.Time, fn func(*Row) error) error {
	names, err := files(dir)
	if err != nil {
		return err
	}
	for i, name := range names {
		start, _ := startOf(name)
		if !start.Before(to) {
			break
		}
		if i+1 < len(names) {
			if next, _ := startOf(names[i+1]); !next.After(from) {
				continue // all of this file is older
			}
		}
		if err := readFile(name, from, to, fn); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func readFile(name string, from, to time.Time, fn func(*Row) error) error {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the writer has removed it
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	p, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return err
	}
	r := parquet.NewGenericReader[Row](p)
	defer r.Close()
	rows := make([]Row, 256)
	for {
		clear(rows) // slices of an earlier read must not be written to
		n, err := r.Read(rows)
		for k := range rows[:n] {
			if row := &rows[k]; row.Start.Before(from) || !row.Start.Before(to) {
				continue
			}
			if err := fn(&rows[k]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
