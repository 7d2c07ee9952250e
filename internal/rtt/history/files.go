package history

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	suffix       = ".parquet"
	hourlySuffix = ".hours" // before suffix
	unfinished   = ".part"
	nameFormat   = "20060102T150405.000000Z" // of the first interval's start, so that names sort by time

	oneDay = 24 * time.Hour
)

// file is a file of a history.
type file struct {
	path   string
	start  time.Time // of the first interval in it
	hourly bool      // a row is of an hour, and the file of a day
}

// newFile returns the file whose first row began at a time. It need not be there.
func newFile(dir string, start time.Time, hourly bool) file {
	name := start.UTC().Format(nameFormat)
	if hourly {
		name += hourlySuffix
	}
	return file{filepath.Join(dir, name+suffix), start, hourly}
}

// parseName reads the name of a file.
func parseName(path string) (f file, ok bool) {
	stem, ok := strings.CutSuffix(filepath.Base(path), suffix)
	if !ok {
		return f, false
	}
	f.path = path
	stem, f.hourly = strings.CutSuffix(stem, hourlySuffix)
	start, err := time.Parse(nameFormat, stem)
	f.start = start
	return f, err == nil
}

func (f file) name() string { return filepath.Base(f.path) }

// day returns when the day began, in UTC, that a file belongs to.
func (f file) day() time.Time { return f.start.Truncate(oneDay) }

// end returns a time before which all of its rows began.
func (f file) end() time.Time {
	if f.hourly {
		return f.day().Add(oneDay + fileEvery) // files of older versions go on after midnight
	}
	return f.start.Add(fileEvery)
}

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

// filesOf returns the files of a day.
func filesOf(dir string, day time.Time) ([]file, error) {
	list, err := files(dir)
	return slices.DeleteFunc(list, func(f file) bool { return !f.day().Equal(day) }), err
}

// days returns the days that a history has files of. While it looks, a day may become hourly, of which it then may see
// neither the old files nor the new one. So it looks twice.
func days(dir string) (days []time.Time, err error) {
	for range 2 {
		list, err := files(dir)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			days = append(days, f.day())
		}
	}
	slices.SortFunc(days, time.Time.Compare)
	return slices.CompactFunc(days, time.Time.Equal), nil
}
