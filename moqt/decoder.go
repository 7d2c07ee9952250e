package moqt

import "slices"

// decoder reads the fields of a control message. The first error sticks and all later reads return zero values, so
// that the parsers of messages read like the formats in the draft.
type decoder struct {
	wire *wire
	b    []byte // what is left; nothing after an error
	err  error
}

// fail records err, if it is the first one.
func (d *decoder) fail(err error) {
	if err != nil && d.err == nil {
		d.err, d.b = err, nil
	}
}

// check fails with a PROTOCOL_VIOLATION if the validation of what was decoded returned err. After an earlier failure
// there is nothing to validate.
func (d *decoder) check(err error) {
	if d.err == nil {
		d.fail(breach(err))
	}
}

func (d *decoder) truncated() { d.fail(violation("payload ends within a field")) }

func (d *decoder) varint() uint64 {
	x, n, err := ParseVarint(d.b)
	if err != nil {
		d.truncated()
		return 0
	}
	d.b = d.b[n:]
	return x
}

func (d *decoder) byte() byte {
	b := d.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// bytes returns a view of the next n bytes, nil if there are fewer.
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

// lengthPrefixed returns a view of a field that is preceded by its length. More than limit bytes are a
// PROTOCOL_VIOLATION, whether or not they are there.
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

// within decodes a structure that has to fill b exactly.
func (d *decoder) within(b []byte, what string, decode func(*decoder)) {
	inner := decoder{wire: d.wire, b: b}
	decode(&inner)
	if len(inner.b) > 0 {
		inner.fail(violation("%d bytes after the end of the %s", len(inner.b), what))
	}
	d.fail(inner.err)
}

// properties decodes Track Properties, which are the rest of the message.
func (d *decoder) properties() Properties {
	if len(d.b) == 0 {
		return nil
	}
	p := Properties(slices.Clone(d.rest()))
	d.fail(p.CheckTrack())
	return p
}
