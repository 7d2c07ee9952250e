package moqt

import "fmt"

// fieldWriter writes the fields that all messages are made of. The first error sticks, so that the encode methods of
// messages read like the formats in the draft.
type fieldWriter struct {
	wire *wire
	b    []byte
	err  error
}

// fail records err, if it is the first one.
func (e *fieldWriter) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *fieldWriter) varint(x uint64) {
	e.fail(e.wire.varint().check(x))
	e.b = e.wire.varint().append(e.b, x)
}

func (e *fieldWriter) byte(x byte) { e.b = append(e.b, x) }

func (e *fieldWriter) location(l Location) {
	e.varint(l.Group)
	e.varint(l.Object)
}

// lengthPrefixed writes the length of s, and then s.
func (e *fieldWriter) lengthPrefixed(s string, limit int, what string) {
	if len(s) > limit {
		e.fail(fmt.Errorf("%s of %d bytes, at most %d are allowed", what, len(s), limit))
	}
	e.varint(uint64(len(s)))
	e.b = append(e.b, s...)
}

// fieldReader reads such fields. The first error sticks, and all later reads return zero values.
type fieldReader struct {
	wire *wire
	b    []byte // the rest; nothing after an error
	err  error
}

// fail records err, if it is the first one.
func (d *fieldReader) fail(err error) {
	if err != nil && d.err == nil {
		d.err, d.b = err, nil
	}
}

// check fails with a PROTOCOL_VIOLATION if err, the result of validating a decoded value, is not nil. It ignores err
// after an earlier failure: the decoded value is then meaningless.
func (d *fieldReader) check(err error) {
	if d.err == nil {
		d.fail(breach(err))
	}
}

func (d *fieldReader) truncated() { d.fail(violation("payload ends within a field")) }

func (d *fieldReader) varint() uint64 {
	x, n, err := d.wire.varint().parse(d.b)
	if err != nil {
		d.truncated()
		return 0
	}
	d.b = d.b[n:]
	return x
}

func (d *fieldReader) byte() byte {
	b := d.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// bytes returns a view of the next n bytes, or nil if there are fewer.
func (d *fieldReader) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.truncated()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// rest returns a view of everything that is left.
func (d *fieldReader) rest() []byte { return d.bytes(uint64(len(d.b))) }

// lengthPrefixed returns a view of a field that is preceded by its length. A length above limit is a
// PROTOCOL_VIOLATION, whether or not the bytes are there.
func (d *fieldReader) lengthPrefixed(limit uint64, what string) []byte {
	n := d.varint()
	if n > limit {
		d.fail(violation("%s of %d bytes, at most %d are allowed", what, n, limit))
	}
	return d.bytes(n)
}

func (d *fieldReader) location() Location {
	group := d.varint()
	return Location{group, d.varint()}
}
