package moqt

import "slices"

// encoder writes a control message.
type encoder struct {
	fieldWriter
	ref Reference
}

// request writes the Request ID of the request that the message belongs to, if the version has one.
func (e *encoder) request() {
	if e.wire.references {
		e.varint(e.ref.RequestID)
	}
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

// prefixed writes the length of write's output, and then the output.
func (e *encoder) prefixed(write func(*encoder)) {
	inner := encoder{fieldWriter: fieldWriter{wire: e.wire}}
	write(&inner)
	e.fail(inner.err)
	e.varint(uint64(len(inner.b)))
	e.b = append(e.b, inner.b...)
}

// decoder reads a control message that has arrived completely.
type decoder struct {
	fieldReader
	ref           Reference
	oldParameters bool // as before draft 17: see Reader
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

// within decodes a structure that must fill b exactly.
func (d *decoder) within(b []byte, what string, decode func(*decoder)) {
	inner := decoder{fieldReader: fieldReader{wire: d.wire, b: b}}
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
