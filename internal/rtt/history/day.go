package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

const (
	// replacesKey is the key, in the metadata of an hourly file, of the names of the files that it replaces.
	replacesKey = "sluice.replaces"
	// maxLooks is how often a day is looked at whose files change meanwhile.
	maxLooks = 100
)

// openFile is a file that can be read, also after it was removed.
type openFile struct {
	file
	*os.File
}

func open(f file) (o openFile, err error) {
	o.file = f
	o.File, err = os.Open(f.path)
	return o, err
}

// table returns what is in a file.
func (o openFile) table() (*parquet.File, error) {
	info, err := o.Stat()
	if err != nil {
		return nil, err
	}
	p, err := parquet.OpenFile(o.File, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.path, err)
	}
	return p, nil
}

// openDay is what a history has of a day at one time, whatever the writer does meanwhile.
type openDay struct {
	files    []openFile // in the order of time
	replaced []file     // which another one replaces, and which are there still
}

// lookAt opens the files of a day. If some were added, replaced or removed meanwhile, it looks again.
func lookAt(dir string, day time.Time) (*openDay, error) {
	list, err := filesOf(dir, day)
	if err != nil {
		return nil, err
	}
	for range maxLooks {
		d, err := openAll(list)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		again, listErr := filesOf(dir, day)
		if err == nil && listErr == nil && slices.Equal(list, again) {
			return d, nil
		}
		if d != nil {
			d.close()
		}
		if listErr != nil {
			return nil, listErr
		}
		list = again
	}
	return nil, fmt.Errorf("%s: the files of %s change all the time", dir, day.Format(time.DateOnly))
}

// openAll opens files, without those that an hourly one among them replaces.
func openAll(list []file) (d *openDay, err error) {
	d = new(openDay)
	defer func() {
		if err != nil {
			d.close()
			d = nil
		}
	}()
	for _, f := range list {
		o, err := open(f)
		if err != nil {
			return d, err
		}
		d.files = append(d.files, o)
	}
	return d, d.leaveReplacedOut()
}

// leaveReplacedOut closes the files that hourly ones replace. What these name comes from the files that stay open: one
// that is opened a second time may be another file of the same name.
func (d *openDay) leaveReplacedOut() error {
	if len(d.files) < 2 {
		return nil
	}
	names := make(map[string]bool)
	for _, o := range d.files {
		if !o.hourly {
			continue
		}
		p, err := o.table()
		if err != nil {
			return err
		}
		text, _ := p.Lookup(replacesKey)
		for name := range strings.FieldsSeq(text) {
			names[name] = true
		}
	}
	d.files = slices.DeleteFunc(d.files, func(o openFile) bool {
		if !names[o.name()] {
			return false
		}
		o.Close()
		d.replaced = append(d.replaced, o.file)
		return true
	})
	return nil
}

// others returns the files of the day that there are, but one.
func (d *openDay) others(but file) (list []file) {
	for _, f := range d.files {
		list = append(list, f.file)
	}
	list = append(list, d.replaced...)
	return slices.DeleteFunc(list, func(f file) bool { return f.path == but.path })
}

func (d *openDay) close() {
	for _, f := range d.files {
		f.Close()
	}
}
