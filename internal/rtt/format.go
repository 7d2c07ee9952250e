package rtt

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

// Format is how records are written.
type Format string

// Formats. Their lines have the fields of ePPing's lines of the same name; more fields may follow.
const (
	FormatStandard Format = "standard" // for people
	FormatJSON     Format = "json"     // one array
	FormatJSONL    Format = "jsonl"    // one object a line
	FormatPPViz    Format = "ppviz"    // for the plots of ppviz: RTTs only
)

// encoder appends the text of records to a buffer.
type encoder interface {
	sample([]byte, *Sample) []byte
	flow([]byte, *FlowEvent) []byte
}

var encoders = map[Format]encoder{
	FormatStandard: standard{},
	FormatJSON:     jsonLines{},
	FormatJSONL:    jsonLines{},
	FormatPPViz:    ppviz{},
}

// A Writer is the Sink that writes records to a file or a terminal.
type Writer struct {
	open   func() (io.WriteCloser, error)
	format Format
	enc    encoder
	out    io.WriteCloser
	buf    *bufio.Writer
	line   []byte
	wrote  bool // something, since the array was opened
	broken bool // an error was returned, and is not to be told twice
	reopen atomic.Bool
}

// NewWriter returns a Writer to what open returns, which is called again at each Reopen.
func NewWriter(format Format, open func() (io.WriteCloser, error)) (*Writer, error) {
	enc, ok := encoders[format]
	if !ok {
		return nil, fmt.Errorf("format %q: choose standard, json, jsonl or ppviz", format)
	}
	w := &Writer{open: open, format: format, enc: enc}
	return w, w.start()
}

func (w *Writer) start() error {
	out, err := w.open()
	if err != nil {
		return err
	}
	w.out = out
	w.buf = bufio.NewWriterSize(w.out, 1<<16)
	w.wrote = false
	if w.format == FormatJSON {
		_, err = w.buf.WriteString("[\n")
	}
	return err
}

// Reopen makes the next Flush close the file and open it again, so that it can be rotated. It may be called at any time.
func (w *Writer) Reopen() { w.reopen.Store(true) }

// Close ends the output. It returns no error that another method has returned.
func (w *Writer) Close() error {
	if w.broken {
		w.out.Close()
		return nil
	}
	return w.end()
}

// end completes the file.
func (w *Writer) end() error {
	if w.format == FormatJSON {
		w.buf.WriteString("\n]\n")
	}
	err := w.buf.Flush()
	if closeErr := w.out.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if !w.reopen.Swap(false) {
		return w.told(w.buf.Flush())
	}
	if err := w.end(); err != nil {
		return w.told(err)
	}
	return w.told(w.start())
}

// told notes an error that is returned.
func (w *Writer) told(err error) error {
	w.broken = w.broken || err != nil
	return err
}

// Sample writes an RTT.
func (w *Writer) Sample(s *Sample) error { return w.write(w.enc.sample(w.line[:0], s)) }

// Flow writes that a flow opened or closed.
func (w *Writer) Flow(f *FlowEvent) error { return w.write(w.enc.flow(w.line[:0], f)) }

// write writes a record, unless the format has nothing for it.
func (w *Writer) write(record []byte) error {
	if len(record) == 0 {
		return nil
	}
	w.line = record
	if w.wrote && w.format == FormatJSON {
		w.buf.WriteString(",\n")
	}
	w.wrote = true
	_, err := w.buf.Write(record)
	if w.format != FormatJSON {
		err = w.buf.WriteByte('\n')
	}
	return w.told(err)
}

// appendUnit appends a duration in the given unit with all its digits.
func appendUnit(b []byte, d, unit time.Duration) []byte {
	whole, rest := d/unit, d%unit
	b = strconv.AppendInt(b, int64(whole), 10)
	if rest == 0 {
		return b
	}
	digits := strconv.AppendInt(nil, int64(rest+unit), 10) // unit is a power of ten: its leading 1 keeps the zeros
	digits[0] = '.'
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return append(b, digits...)
}

// appendPair appends the two ends of a flow.
func appendPair(b []byte, e *Ends) []byte {
	b = append(e.Source.Addr().AppendTo(b), ':')
	b = strconv.AppendUint(b, uint64(e.Source.Port()), 10)
	b = append(e.Destination.Addr().AppendTo(append(b, '+')), ':')
	return strconv.AppendUint(b, uint64(e.Destination.Port()), 10)
}
