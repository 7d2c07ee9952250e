package history

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// keeper keeps a folder within its limits.
type keeper struct {
	dir    string
	limits Limits
	last   time.Time // when the limits were kept
}

// begin removes a killed process's unfinished files, and begins to keep the limits: at the time of the newest file, or
// now if that is in the future.
func (k *keeper) begin() error {
	left, err := filepath.Glob(filepath.Join(k.dir, "*"+unfinished))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	list, err := files(k.dir)
	if err != nil || len(list) == 0 {
		return err
	}
	k.last = earliest(list[len(list)-1].start, time.Now())
	return k.keep(k.last)
}

// keep removes files that are too old at a time, and the oldest files beyond the size. A file is old if it was the last
// time, too: a clock that is wrong for a moment removes nothing.
func (k *keeper) keep(now time.Time) error {
	now, k.last = earliest(now, k.last), now
	list, err := files(k.dir)
	if err != nil {
		return err
	}
	var sum int64
	for i, f := range slices.Backward(list) {
		size, err := f.size()
		if err != nil {
			return err
		}
		sum += size
		if sum > k.limits.Size || k.limits.Age > 0 && now.Sub(f.end()) >= k.limits.Age {
			return removeAll(list[:i+1])
		}
	}
	return nil
}

func removeAll(list []file) error {
	var errs []error
	for _, f := range list {
		if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }
