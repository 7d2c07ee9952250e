package withdrawn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"sluice/clock"
	"sluice/internal/bounds"
	"sluice/internal/files"
	"sluice/internal/logs"
)

const (
	// lookInterval is how often a file is looked at.
	lookInterval = 250 * time.Millisecond
	// maxFile is the size of the largest file that is read: a full list has half of that.
	maxFile = 4 << 20
)

// File keeps a list in a file, so that the list outlasts a restart, and all processes of a relay share it while one
// replaces another. Each process merges the file into its own list, and adds its own entries to the file.
type File struct {
	list *List
	name string
	log  *logs.Sparse

	mu   sync.Mutex
	seen os.FileInfo // nil: there is none
	hash uint64      // of the list in it
}

// Keep reads a file, which need not be there, and writes each change of the list to it from now on.
func Keep(list *List, name string, log *slog.Logger) (*File, error) {
	f := &File{list: list, name: name, log: logs.NewSparse(log)}
	next := f.next()
	if err := cmp.Or(f.sync(), os.WriteFile(next, nil, 0o600), os.Remove(next)); err != nil {
		return nil, err // later it would be too late to say that nothing can be kept
	}
	list.OnChange(f.look)
	return f, nil
}

// Run merges what others write, until the context is done.
func (f *File) Run(ctx context.Context) {
	for range clock.Every(lookInterval, ctx.Done()) {
		f.look()
	}
}

func (f *File) look() {
	if err := f.sync(); err != nil {
		f.log.Log(slog.LevelError, "file", "withdrawn tokens are not kept for a restart, nor for other processes of "+
			"the relay", "err", err)
	}
}

// sync makes the list and the file the same.
func (f *File) sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.seen, f.hash = nil, 0
	case err != nil:
		return err
	case !files.Same(f.seen, info):
		if err := f.readLocked(); err != nil {
			return err
		}
		f.seen = info
	}
	if hash := f.list.Hash(); hash != f.hash {
		return f.writeLocked(hash)
	}
	return nil
}

func (f *File) readLocked() error {
	entries, err := readFile(f.name)
	if err != nil {
		return fmt.Errorf("%s: %w; correct or remove it", f.name, err)
	}
	there := New(func() {})
	err = errors.Join(there.Merge(entries), f.list.Merge(entries))
	f.hash = there.Hash()
	return err
}

func readFile(name string) (entries []Entry, err error) {
	text, _, err := files.Read(name, maxFile)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("not a list of withdrawn tokens: %w", err)
	}
	if err := bounds.Check("number of subjects", len(entries), 0, MaxEntries); err != nil {
		return nil, err
	}
	for i := range entries {
		if err := entries[i].Validate(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// next returns where the next list is written.
func (f *File) next() string { return fmt.Sprintf("%s.%d", f.name, os.Getpid()) }

// writeLocked writes the list. The name always has a whole one.
func (f *File) writeLocked(hash uint64) error {
	text, err := json.MarshalIndent(f.list.All(), "", "  ")
	if err != nil {
		return err
	}
	next := f.next()
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return err
	}
	if err := os.Rename(next, f.name); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	f.hash = hash
	f.seen, err = os.Stat(f.name)
	return err
}
