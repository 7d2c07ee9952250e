package history

import (
	"errors"
	"io/fs"
	"time"
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
