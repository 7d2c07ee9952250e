package moqt

import "math"

// SubgroupObject is an object on a subgroup stream: its header and where it lies. Offsets count from the same origin
// as the start that NewSubgroupParser was given.
type SubgroupObject struct {
	ObjectHeader
	Start           int64 // first byte of the header
	IDEnd           int64 // after the Object ID Delta; all that follows does not depend on earlier objects
	PropertiesStart int64 // first byte of Properties, after their length
	PayloadStart    int64
	End             int64 // after the last byte of the payload
}

// SubgroupParser finds the objects of a subgroup stream while its bytes come in, in pieces of any size. It copies no
// payload and keeps no more than the header of one object.
type SubgroupParser struct {
	scanner       objectScanner
	group         uint64
	hasProperties bool
	first         bool // no object has been parsed
	object        SubgroupObject
}

// NewSubgroupParser returns a parser of what follows header h; start is the offset of the first byte after it.
func NewSubgroupParser(h SubgroupHeader, start int64) *SubgroupParser {
	return &SubgroupParser{
		scanner:       objectScanner{offset: start, end: start},
		group:         h.GroupID,
		hasProperties: h.HasProperties,
		first:         true,
	}
}

// Next consumes bytes from b, the next ones of the stream, until it knows the header of the next object, and returns
// that object and the number of bytes consumed. Most of the payload is then still to come: the caller passes on the
// rest of b and all that follows, and the parser skips it.
//
// If b holds no further header, all of b is consumed and the error is ErrIncomplete. Other errors are a ProtocolError,
// a MalformedTrackError or ErrPropertiesTooLong, and final. The object is valid until the next call; its Properties
// share memory with b or the parser.
func (p *SubgroupParser) Next(b []byte) (o *SubgroupObject, n int, err error) {
	n, err = p.scanner.next(b, p)
	if err != nil {
		return nil, n, err
	}
	return &p.object, n, nil
}

// Finish returns a ProtocolError if the stream may not end here with a FIN because it is within an object
// (draft §11.4).
func (p *SubgroupParser) Finish() error { return p.scanner.finish() }

// Offset returns the offset of the next byte that Next expects.
func (p *SubgroupParser) Offset() int64 { return p.scanner.offset + p.scanner.carriedLen() }

// parseHeader implements headerParser.
func (p *SubgroupParser) parseHeader(b []byte, start int64) (n, need int, end int64, err error) {
	f := fields{b: b}
	o := SubgroupObject{Start: start}
	delta := f.varint()
	o.IDEnd = start + int64(f.n)
	if p.hasProperties {
		o.Properties = f.properties()
		o.PropertiesStart = start + int64(f.n-len(o.Properties))
	}
	o.PayloadLength = f.varint()
	if o.PayloadLength == 0 {
		o.Status = ObjectStatus(f.varint())
	}
	if f.err != nil {
		return 0, f.need, 0, f.err
	}
	if o.ObjectID, err = p.objectID(delta); err != nil {
		return 0, 0, 0, err
	}
	if err := o.check(p.group); err != nil {
		return 0, 0, 0, err
	}
	o.PayloadStart = start + int64(f.n)
	if o.End, err = objectEnd(o.PayloadStart, o.PayloadLength); err != nil {
		return 0, 0, 0, err
	}
	p.object, p.first = o, false
	return f.n, 0, o.End, nil
}

// objectID adds the delta to the latest Object ID (draft §11.4.2).
func (p *SubgroupParser) objectID(delta uint64) (uint64, error) {
	if p.first {
		return delta, nil
	}
	if last := p.object.ObjectID; delta < math.MaxUint64-last {
		return last + 1 + delta, nil
	}
	return 0, violation("object id exceeds 2^64-1")
}

// check validates status and properties of an object in group.
func (h *ObjectHeader) check(group uint64) error {
	if err := h.Status.validate(h.Properties); err != nil {
		return breach(err)
	}
	return h.Properties.CheckObject(Location{group, h.ObjectID})
}
