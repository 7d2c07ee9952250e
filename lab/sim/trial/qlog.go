package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/server/qlogs"
)

// qlog is the qlog of one end of a connection. Unlike a relay's, it has no goroutine and no file, so that it does not
// change the order of goroutines.
type qlog struct {
	name string

	mu    sync.Mutex
	lines *qlogs.Lines
}

// trace begins the qlog of a connection.
func (r *Record) trace(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	end := "server"
	if isClient {
		end = "client"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &qlog{name: fmt.Sprintf("%02d-%v-%s.sqlog", len(r.qlogs)+1, id, end), lines: qlogs.NewLines(isClient, id)}
	r.qlogs = append(r.qlogs, q)
	return q
}

// AddProducer implements [qlogwriter.Trace].
func (q *qlog) AddProducer() qlogwriter.Recorder { return q }

// Close implements [qlogwriter.Recorder].
func (q *qlog) Close() error { return nil }

// RecordEvent implements [qlogwriter.Recorder].
func (q *qlog) RecordEvent(e qlogwriter.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines.Add(e)
}

// WriteQlogs writes a file for each end of each connection.
func (r *Record) WriteQlogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, q := range r.qlogs {
		text := slices.Concat(q.lines.Header, q.lines.Text.Bytes())
		if err := os.WriteFile(filepath.Join(dir, q.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
