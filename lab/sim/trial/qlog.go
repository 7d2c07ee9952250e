package trial

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/qlogwriter/jsontext"
)

// qlog is the qlog of one end of a connection. Unlike quic-go's, it has no goroutine, and makes text of events
// only when all is over: so that it changes neither the order of goroutines nor who gets which random number.
type qlog struct {
	name   string
	header bytes.Buffer
	begin  time.Time

	mu     sync.Mutex
	events []qlogEvent
}

type qlogEvent struct {
	at time.Time
	qlogwriter.Event
}

// trace begins the qlog of a connection.
func (r *Record) trace(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	end := "server"
	if isClient {
		end = "client"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &qlog{name: fmt.Sprintf("%02d-%v-%s.sqlog", len(r.qlogs)+1, id, end), begin: time.Now()}
	qlogwriter.NewConnectionFileSeq(nopCloser{&q.header}, isClient, id) // writes the header
	r.qlogs = append(r.qlogs, q)
	return q
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// AddProducer implements [qlogwriter.Trace].
func (q *qlog) AddProducer() qlogwriter.Recorder { return q }

// Close implements [qlogwriter.Recorder].
func (q *qlog) Close() error { return nil }

// RecordEvent implements [qlogwriter.Recorder].
func (q *qlog) RecordEvent(e qlogwriter.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, qlogEvent{time.Now(), e})
}

// text returns the qlog in the format JSON-SEQ.
func (q *qlog) text() []byte {
	b := bytes.NewBuffer(q.header.Bytes())
	enc := jsontext.NewEncoder(b)
	for _, e := range q.events {
		b.WriteByte(qlogwriter.RecordSeparator)
		for _, t := range []jsontext.Token{
			jsontext.BeginObject, jsontext.String("time"), jsontext.Float(float64(e.at.Sub(q.begin)) / 1e6),
			jsontext.String("name"), jsontext.String(e.Name()), jsontext.String("data"),
		} {
			_ = enc.WriteToken(t) // a buffer takes everything
		}
		_ = e.Encode(enc, e.at)
		_ = enc.WriteToken(jsontext.EndObject)
	}
	return b.Bytes()
}

// WriteQlogs writes a file for each end of each connection.
func (r *Record) WriteQlogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, q := range r.qlogs {
		if err := os.WriteFile(filepath.Join(dir, q.name), q.text(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
