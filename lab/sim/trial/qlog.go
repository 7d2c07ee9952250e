package trial

import (
	"sync"

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
