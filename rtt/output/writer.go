package output

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/internal/bounds"
	"sluice/rtt/report"
)

// Format is the form in which values are written.
type Format string

// Formats. Where ePPing has a format of the same name, lines begin with its fields; further fields may follow.
const (
	Standard Format = "standard" // for people
	JSON     Format = "json"     // one array
	JSONL    Format = "jsonl"    // one object a line
	PPViz    Format = "ppviz"    // for the plots of ppviz: RTTs only
)

// Formats returns the names of all formats.
func Formats() []string { return formats[encoder]() }

// Check returns an error unless there is such a format.
func (f Format) Check() error { return bounds.OneOf("--format", string(f), Formats()...) }

// CheckAggregates returns an error unless the format has aggregates.
func (f Format) CheckAggregates() error {
	return bounds.OneOf("--format with --aggregate", string(f), formats[aggregateEncoder]()...)
}

// encoder appends the text of values to a buffer.
type encoder interface {
	sample([]byte, *report.Sample) []byte
	flow([]byte, *report.FlowEvent) []byte
}

var encoders = map[Format]encoder{
	Standard: standard{},
	JSON:     jsonLines{},
	JSONL:    jsonLines{},
	PPViz:    ppviz{},
}

// formats returns the names of the formats whose encoder is an E, too.
func formats[E any]() (names []string) {
	for f, e := range encoders {
		if _, ok := e.(E); ok {
			names = append(names, string(f))
		}
	}
	slices.Sort(names)
	return names
}

// A Writer is the Sink that writes to a file or a terminal. Only Reopen may be called at the same time as another
// method.
type Writer struct {
	open   func() (io.WriteCloser, error)
	format Format
	enc    encoder
	out    io.WriteCloser
	buf    *bufio.Writer
	line   []byte
	wrote  bool // a value was written since the file was opened
	broken bool // an error was returned; Close does not return another
	reopen atomic.Bool
}

// New returns a Writer to the file that open returns. Each Reopen calls open again.
func New(format Format, open func() (io.WriteCloser, error)) (*Writer, error) {
	if err := format.Check(); err != nil {
		return nil, err
	}
	w := &Writer{open: open, format: format, enc: encoders[format]}
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
	if w.format == JSON {
		_, err = io.WriteString(w.out, "[\n") // at once: nobody calls Flush while there are no values
	}
	return err
}

// Reopen makes the next Flush close the file and open it again, so that it can be rotated. It may be called at any
// time.
func (w *Writer) Reopen() { w.reopen.Store(true) }

// Close completes the output. It returns nil if another method has returned an error.
func (w *Writer) Close() error {
	if w.broken {
		w.out.Close()
		return nil
	}
	return w.end()
}

// end completes and closes the file.
func (w *Writer) end() error {
	if w.format == JSON {
		w.buf.WriteString("\n]\n")
	}
	err := w.buf.Flush()
	if closeErr := w.out.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Flush writes the buffer.
func (w *Writer) Flush() error {
	if !w.reopen.Swap(false) {
		return w.remember(w.buf.Flush())
	}
	if err := w.end(); err != nil {
		return w.remember(err)
	}
	return w.remember(w.start())
}

// remember returns err, and sets broken if it is not nil.
func (w *Writer) remember(err error) error {
	w.broken = w.broken || err != nil
	return err
}

// Sample writes an RTT.
func (w *Writer) Sample(s *report.Sample) error { return w.write(w.enc.sample(w.line[:0], s)) }

// Flow writes that a flow opened or closed.
func (w *Writer) Flow(f *report.FlowEvent) error { return w.write(w.enc.flow(w.line[:0], f)) }

// write writes the text of one value. Empty text is left out.
func (w *Writer) write(record []byte) error {
	if len(record) == 0 {
		return nil
	}
	w.line = record
	if w.wrote && w.format == JSON {
		w.buf.WriteString(",\n")
	}
	w.wrote = true
	_, err := w.buf.Write(record)
	if w.format != JSON {
		err = w.buf.WriteByte('\n')
	}
	return w.remember(err)
}

// appendUnit appends a duration in the given unit, with all digits.
func appendUnit(b []byte, d, unit time.Duration) []byte {
	whole, rest := d/unit, d%unit
	b = strconv.AppendInt(b, int64(whole), 10)
	if rest == 0 {
		return b
	}
	var room [20]byte
	digits := strconv.AppendInt(room[:0], int64(rest+unit), 10) // unit is a power of ten: its leading 1 keeps the zeros
	digits[0] = '.'
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return append(b, digits...)
}

// appendPair appends the two ends of a flow.
func appendPair(b []byte, e *report.Ends) []byte {
	b = append(e.Source.Addr().AppendTo(b), ':')
	b = strconv.AppendUint(b, uint64(e.Source.Port()), 10)
	b = append(e.Destination.Addr().AppendTo(append(b, '+')), ':')
	return strconv.AppendUint(b, uint64(e.Destination.Port()), 10)
}

// Interval writes an interval.
func (w *Writer) Interval(i *report.Interval) error {
	enc, ok := w.enc.(aggregateEncoder)
	if !ok {
		return w.format.CheckAggregates()
	}
	if !w.wrote {
		if err := w.write(enc.aggregation(w.line[:0], i)); err != nil {
			return err
		}
	}
	for n := range i.Prefixes {
		if err := w.write(enc.prefix(w.line[:0], i, &i.Prefixes[n])); err != nil {
			return err
		}
	}
	return w.write(enc.totals(w.line[:0], i))
}
