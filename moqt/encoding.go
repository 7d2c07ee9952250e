package moqt

import (
	"fmt"
	"slices"
)

// encoder writes the fields of a control message. The first error sticks, so that the encode methods of messages read
// like the formats in the draft.
type encoder struct {
	wire *wire
	ref  Reference
	b    []byte
	err  error
}

// fail records err, if it is the first one.
func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) varint(x uint64) {
	e.fail(e.wire.varint().check(x))
	e.b = e.wire.varint().append(e.b, x)
}

// request writes the Request ID of the request that the message belongs to, if the version has one.
func (e *encoder) request() {
	if e.wire.references {
		e.varint(e.ref.RequestID)
	}
}

func (e *encoder) byte(x byte) { e.b = append(e.b, x) }

func (e *encoder) location(l Location) {
	e.varint(l.Group)
	e.varint(l.Object)
}

func (e *encoder) properties(p Properties) {
	e.fail(p.CheckTrack())
	if e.wire.varint() != vi64 {
		p = p.withoutZeroTimeout()
	}
	p, err := e.wire.varint().properties(p)
	e.fail(err)
	e.b = append(e.b, p...)
}

// lengthPrefixed writes the length of s, and then s.
func (e *encoder) lengthPrefixed(s string, limit int, what string) {
	if len(s) > limit {
		e.fail(fmt.Errorf("%s of %d bytes, at most %d are allowed", what, len(s), limit))
	}
	e.varint(uint64(len(s)))
	e.b = append(e.b, s...)
}

// prefixed writes the length of write's output, and then the output.
func (e *encoder) prefixed(write func(*encoder)) {
	inner := encoder{wire: e.wire}
	write(&inner)
	e.fail(inner.err)
	e.varint(uint64(len(inner.b)))
	e.b = append(e.b, inner.b...)
}

// decoder reads the fields of a control message that has arrived completely. The first error sticks, and all later
// reads return zero values.
type decoder struct {
	wire *wire
	ref  Reference
	b    []byte // the rest; nothing after an error
	err  error

	oldParameters bool // as before draft 17: see Reader
}

// fail records err, if it is the first one.
func (d *decoder) fail(err error) {
	if err != nil && d.err == nil {
		d.err, d.b = err, nil
	}
}

// check fails with a PROTOCOL_VIOLATION if err, the result of validating a decoded value, is not nil. It ignores err
// after an earlier failure: the decoded value is then meaningless.
func (d *decoder) check(err error) {
	if d.err == nil {
		d.fail(breach(err))
	}
}

func (d *decoder) truncated() { d.fail(violation("payload ends within a field")) }

func (d *decoder) varint() uint64 {
	x, n, err := d.wire.varint().parse(d.b)
	if err != nil {
		d.truncated()
		return 0
	}
	d.b = d.b[n:]
	return x
}

// request reads what encoder.request writes.
func (d *decoder) request() {
	if d.wire.references {
		d.ref.RequestID = d.varint()
	}
}

// newRequest reads the Request ID of a message that is a request itself.
func (d *decoder) newRequest() uint64 {
	d.ref.RequestID = d.varint()
	return d.ref.RequestID
}

func (d *decoder) byte() byte {
	b := d.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// bytes returns a view of the next n bytes, or nil if there are fewer.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.truncated()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// rest returns a view of everything that is left.
func (d *decoder) rest() []byte { return d.bytes(uint64(len(d.b))) }

// lengthPrefixed returns a view of a field that is preceded by its length. A length above limit is a
// PROTOCOL_VIOLATION, whether or not the bytes are there.
func (d *decoder) lengthPrefixed(limit uint64, what string) []byte {
	n := d.varint()
	if n > limit {
		d.fail(violation("%s of %d bytes, at most %d are allowed", what, n, limit))
	}
	return d.bytes(n)
}

func (d *decoder) location() Location {
	group := d.varint()
	return Location{group, d.varint()}
}

// within decodes a structure that must fill b exactly.
func (d *decoder) within(b []byte, what string, decode func(*decoder)) {
	inner := decoder{wire: d.wire, b: b}
	decode(&inner)
	if len(inner.b) > 0 {
		inner.fail(violation("%d bytes after the end of the %s", len(inner.b), what))
	}
	d.fail(inner.err)
}

// prefixed decodes a structure that is preceded by its length and must fill it exactly.
func (d *decoder) prefixed(what string, decode func(*decoder)) {
	b := d.lengthPrefixed(maxPayloadLen, what)
	if d.err == nil {
		d.within(b, what, decode)
	}
}

// properties decodes the Track Properties, which are the rest of the message.
func (d *decoder) properties() Properties {
	if len(d.b) == 0 {
		return nil
	}
	p := Properties(slices.Clone(d.rest()))
	if f := d.wire.varint(); f != vi64 && d.err == nil {
		var err error
		if p, err = convertProperties(p, f, vi64); err == ErrIncomplete {
			err = violation("track properties end within a key-value-pair")
		}
		d.fail(err)
		d.fail(p.checkTimeouts())
	}
	d.fail(p.CheckTrack())
	return p
}
