package qlogs

import (
	"bytes"
	"io"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/qlogwriter/jsontext"
)

// Lines encodes the events of a connection. It has no lock.
type Lines struct {
	Header  []byte
	Text    bytes.Buffer // events that were added
	begin   time.Time
	encoder *jsontext.Encoder
}

// NewLines returns the lines of a connection that begins now.
func NewLines(isClient bool, id quic.ConnectionID) *Lines {
	l := &Lines{begin: time.Now()}
	var header bytes.Buffer
	qlogwriter.NewConnectionFileSeq(nopCloser{&header}, isClient, id) // writes the header
	l.Header = header.Bytes()
	l.encoder = jsontext.NewEncoder(&l.Text)
	return l
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Add encodes an event that happens now.
func (l *Lines) Add(e qlogwriter.Event) {
	now := time.Now()
	l.Text.WriteByte(qlogwriter.RecordSeparator)
	for _, t := range []jsontext.Token{
		jsontext.BeginObject, jsontext.String("time"), jsontext.Float(float64(now.Sub(l.begin)) / 1e6),
		jsontext.String("name"), jsontext.String(e.Name()), jsontext.String("data"),
	} {
		_ = l.encoder.WriteToken(t) // a buffer takes everything
	}
	_ = e.Encode(l.encoder, now)
	_ = l.encoder.WriteToken(jsontext.EndObject)
}
