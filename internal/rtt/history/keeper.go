package history

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// keeper keeps a folder within its limits. Days are joined beside the writer, one after the other.
type keeper struct {
	dir    string
	limits Limits
	room   int // as maxJoined
	logger *slog.Logger

	last     time.Time  // when the limits were kept
	warned   bool       // that there is no room for a day
	changing sync.Mutex // held while files are removed, or replaced
	ctx      context.Context
	cancel   context.CancelFunc
	joining  atomic.Bool
	joins    sync.WaitGroup
	failed   map[time.Time]time.Time // when a day could not be joined; of the goroutine that joins
}

func newKeeper(dir string, limits Limits, logger *slog.Logger) *keeper {
	k := &keeper{dir: dir, limits: limits, room: maxJoined, logger: logger, failed: make(map[time.Time]time.Time)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// close ends what is being joined.
func (k *keeper) close() {
	k.cancel()
	k.joins.Wait()
}

// begin removes what a killed process has left, and begins to keep the limits: at the time of the newest file, or now
// if that is in the future.
func (k *keeper) begin() error {
	left, err := k.unfinished()
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
	k.removeReplaced(list)
	newest := list[len(list)-1]
	at := newest.start
	if newest.hourly {
		at = newest.day().Add(oneDay)
	}
	k.last = earlier(at, time.Now())
	return k.keep(k.last)
}

// unfinished returns files that are being written.
func (k *keeper) unfinished() ([]string, error) {
	return filepath.Glob(filepath.Join(k.dir, "*"+unfinished))
}

// removeReplaced removes files that are replaced by one that was made of them.
func (k *keeper) removeReplaced(list []file) {
	for i, f := range list {
		if !f.hourly || i > 0 && list[i-1].hourly && list[i-1].day().Equal(f.day()) {
			continue
		}
		d, err := lookAt(k.dir, f.day())
		if err != nil {
			k.logger.Warn("a day of the history cannot be read", "error", err)
			continue
		}
		d.close()
		if err := removeAll(d.replaced); err != nil {
			k.logger.Warn("files of the history are not removed", "error", err)
		}
	}
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

// keep removes what is beyond the limits at a time, and has days joined. What is old is so since the last time: a clock
// that is wrong for a moment removes nothing.
func (k *keeper) keep(now time.Time) error {
	now, k.last = earlier(now, k.last), now
	if err := k.shrink(now); err != nil {
		return err
	}
	if k.limits.Hourly > 0 && k.joining.CompareAndSwap(false, true) {
		k.joins.Go(func() {
			defer k.joining.Store(false)
			if err := k.joinDue(now); err != nil && k.ctx.Err() == nil {
				k.logger.Error("rows of the history are not joined to hours", "error", err)
			}
		})
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// shrink removes files that are too old, and the oldest files beyond the size.
func (k *keeper) shrink(now time.Time) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	sum, err := k.sizeOfUnfinished()
	if err != nil {
		return err
	}
	list, err := files(k.dir)
	if err != nil {
		return err
	}
	for i, f := range slices.Backward(list) {
		size, err := f.size()
		if err != nil {
			return err
		}
		sum += size
		if sum > k.limits.Size {
			k.warnOfSize(f, now)
			return removeAll(list[:i+1])
		}
		if k.limits.Age > 0 && now.Sub(f.end()) >= k.limits.Age {
			if err := removeAll(list[i : i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// warnOfSize warns once if a file is removed for its size although its day is not over: no hours stay then.
func (k *keeper) warnOfSize(removed file, now time.Time) {
	if k.warned || !removed.day().Add(oneDay).After(now) {
		return
	}
	k.warned = true
	k.logger.Warn("the history has no room for a day: raise --history-size, or aggregate less often or fewer prefixes",
		"bytes", k.limits.Size, "removed", removed.name())
}

func (k *keeper) sizeOfUnfinished() (sum int64, err error) {
	paths, err := k.unfinished()
	for _, path := range paths {
		size, err := file{path: path}.size()
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, err
}

// due returns the days that are to be joined at a time, the oldest first: those that are over, and have rows that are
// finer than an hour, if these are old or if such rows take more than half of the size. So there is room for months of
// hours as long as half of the size is room for a day.
func (k *keeper) due(now time.Time) (days []time.Time, err error) {
	list, err := files(k.dir)
	if err != nil {
		return nil, err
	}
	var fine int64
	for _, f := range slices.Backward(list) {
		if f.hourly {
			continue
		}
		size, err := f.size()
		if err != nil {
			return nil, err
		}
		fine += size
		ended := f.day().Add(oneDay)
		if ended.After(now) || fine <= k.limits.Size/2 && now.Sub(ended) < k.limits.Hourly {
			continue
		}
		if len(days) == 0 || !days[len(days)-1].Equal(f.day()) {
			days = append(days, f.day())
		}
	}
	slices.Reverse(days)
	return days, nil
}

// joinDue joins the days that are due. One that could not be joined stays as it is for an hour: it may be damaged, or
// the disk is full.
func (k *keeper) joinDue(now time.Time) error {
	days, err := k.due(now)
	if err != nil {
		return err
	}
	maps.DeleteFunc(k.failed, func(_, at time.Time) bool { return now.Sub(at).Abs() >= time.Hour })
	var errs []error
	for _, day := range days {
		if _, ok := k.failed[day]; ok || k.ctx.Err() != nil {
			continue
		}
		if err := k.join(day); err != nil {
			k.failed[day] = now
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// join joins the rows of a day.
//
// The new file is written under another name, and names the files that it replaces. Its own name is the commit point:
// once it has that, readers leave the others out, and they are removed. What a killed process leaves is removed at the
// next start: before the commit point that is the new file, and after it the old ones.
func (k *keeper) join(day time.Time) error {
	d, err := lookAt(k.dir, day)
	if err != nil {
		return err
	}
	defer d.close()
	if len(d.files) == 0 {
		return nil
	}
	result := newFile(k.dir, d.files[0].start, true)
	old := d.others(result)
	var names []string
	for _, f := range old {
		names = append(names, f.name())
	}
	if err := writeHours(k.ctx, result.path+unfinished, d, k.room, names); err != nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	if err := putInPlace(result.path); err != nil {
		return err
	}
	if err := syncFolder(k.dir); err != nil {
		return err
	}
	return removeAll(old)
}
