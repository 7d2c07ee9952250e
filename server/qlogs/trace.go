package qlogs

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"

	moqtqlog "sluice/moqt/qlog"
)

// trace is the qlog of a connection. It implements [qlogwriter.Trace] and [qlogwriter.Recorder].
type trace struct {
	directory *Directory
	name      string
	isClient  bool

	mu      sync.Mutex // guards what follows
	changed sync.Cond  // lines, over
	lines   *Lines
	over    bool
	begun   bool // the connection has its recorder
	// wants reports whether a connection with a path gets a qlog. nil: it does. Events wait until the path is known.
	wants func(path string) bool
	err   error // why the qlog has ended early

	// Of run.
	file    file
	written int64 // to the file
}

func newTrace(d *Directory, isClient bool, id quic.ConnectionID) *trace {
	end := "server"
	if isClient {
		end = "client"
	}
	t := &trace{
		directory: d, name: fmt.Sprintf("%v_%s", id, end), isClient: isClient, lines: NewLines(isClient, id),
	}
	t.changed.L = &t.mu
	return t
}

// AddProducer implements [qlogwriter.Trace]. The first producer is the connection, and its end is the qlog's: the
// others need not close theirs.
func (t *trace) AddProducer() qlogwriter.Recorder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun {
		return guest{t}
	}
	t.begun = true
	return t
}

// guest is another producer of events of the connection.
type guest struct{ *trace }

// Close implements [qlogwriter.Recorder].
func (guest) Close() error { return nil }

// RecordEvent implements [qlogwriter.Recorder]. It does not wait.
func (t *trace) RecordEvent(e qlogwriter.Event) {
	e = redact(e)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.lines.Add(e)
	switch path, told := moqtqlog.PathOf(e, t.isClient); {
	case t.wants == nil && t.lines.Text.Len() > maxWaiting:
		t.endLocked(errSlow)
	case t.wants != nil && (told && !t.wants(path) || t.lines.Text.Len() > maxWaiting):
		t.endLocked(nil)
	case told:
		t.wants = nil
	}
	t.changed.Signal()
}

// Close implements [qlogwriter.Recorder].
func (t *trace) Close() error {
	t.end(nil)
	return nil
}

func (t *trace) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(err)
}

func (t *trace) endLocked(err error) {
	if !t.over {
		t.over, t.err = true, err
		t.changed.Signal()
	}
}

// run writes events until the end.
func (t *trace) run() {
	for spare := []byte(nil); ; {
		b := t.take(spare)
		if len(b) == 0 {
			break
		}
		if err := t.write(b); err != nil {
			t.end(err)
			break
		}
		spare = b
	}
	if t.file != nil {
		t.end(t.file.Close())
	}
	t.mu.Lock()
	err := t.err
	t.lines = nil
	t.mu.Unlock()
	t.directory.ended(t, err)
}

// take waits for events, and copies them over what was taken before. Nothing: the qlog is over.
func (t *trace) take(b []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	for (t.lines.Text.Len() == 0 || t.wants != nil) && !t.over {
		t.changed.Wait()
	}
	if t.wants != nil {
		t.lines.Text.Reset() // of another path, or of none
	}
	b = append(b[:0], t.lines.Text.Bytes()...)
	t.lines.Text.Reset()
	return b
}

// write writes to a file, or to the next one if it is full. Each has the header.
func (t *trace) write(b []byte) error {
	if t.file == nil || t.written+int64(len(b)) > t.directory.partSize() {
		if err := t.next(); err != nil {
			return err
		}
	}
	n, err := t.file.Write(b)
	if err != nil { // as on a full disk: the file keeps whole events
		whole := max(bytes.LastIndexByte(b[:n], qlogwriter.RecordSeparator), 0)
		return errors.Join(err, t.file.Truncate(t.written+int64(whole)))
	}
	t.written += int64(n)
	return nil
}

func (t *trace) next() error {
	if t.file != nil {
		if err := t.file.Close(); err != nil {
			return err
		}
	}
	f, err := t.directory.create(t)
	if err != nil {
		t.file = nil
		return err
	}
	t.file = f
	n, err := f.Write(t.lines.Header)
	t.written = int64(n)
	if err != nil {
		return errors.Join(err, t.directory.remove(t))
	}
	return nil
}
