package moqt

import (
	"errors"
	"fmt"
	"math"
)

// SubgroupIDMode is where the Subgroup ID of a subgroup stream comes from (draft §11.4.2).
type SubgroupIDMode uint8

// Subgroup ID modes.
const (
	SubgroupIDZero        SubgroupIDMode = 0b00 // it is 0
	SubgroupIDFirstObject SubgroupIDMode = 0b01 // it is the Object ID of the first object on the stream
	SubgroupIDPresent     SubgroupIDMode = 0b10 // it is in the header
)

// Bits of the type of a SUBGROUP_HEADER (draft §11.4.2).
const (
	subgroupProperties      = 0x01
	subgroupIDModeShift     = 1
	subgroupIDModeMask      = 0x06
	subgroupEndOfGroup      = 0x08
	subgroupDefaultPriority = 0x20
	subgroupFirstObject     = 0x40
)

// SubgroupHeader starts a stream that carries objects of one subgroup (draft §11.4.2).
type SubgroupHeader struct {
	TrackAlias      uint64
	GroupID         uint64
	SubgroupIDMode  SubgroupIDMode
	SubgroupID      uint64 // with SubgroupIDPresent
	DefaultPriority bool   // the header has no priority: the subscription's applies
	Priority        uint8  // Publisher Priority, unless DefaultPriority
	HasProperties   bool   // each object has a properties field
	EndOfGroup      bool   // if the stream ends with FIN, its last object is the last one of the group
	FirstObject     bool   // the first object on the stream is the first one that was published in the subgroup
}

// AppendSubgroupHeader appends h. SubgroupIDMode has to be one of the three modes, and the ids at most MaxNumber of the
// version's DataLayout. FirstObject is left out if the layout has no bit for it.
func AppendSubgroupHeader(b []byte, v Version, h SubgroupHeader) []byte {
	l := v.DataLayout()
	b = l.varint().append(b, l.SubgroupType(h))
	b = l.varint().append(b, h.TrackAlias)
	b = l.varint().append(b, h.GroupID)
	if h.SubgroupIDMode == SubgroupIDPresent {
		b = l.varint().append(b, h.SubgroupID)
	}
	if !h.DefaultPriority {
		b = append(b, h.Priority)
	}
	return b
}

// flags returns the bits of the type that name the fields.
func (h SubgroupHeader) flags() uint64 {
	flags := uint64(h.SubgroupIDMode) << subgroupIDModeShift
	for _, flag := range [...]struct {
		set bool
		bit uint64
	}{
		{h.HasProperties, subgroupProperties},
		{h.EndOfGroup, subgroupEndOfGroup},
		{h.DefaultPriority, subgroupDefaultPriority},
		{h.FirstObject, subgroupFirstObject},
	} {
		if flag.set {
			flags |= flag.bit
		}
	}
	return flags
}

// ParseSubgroupHeader decodes the header at the start of b, type included, and returns its encoded length. It returns
// ErrIncomplete if b ends within the header.
func ParseSubgroupHeader(v Version, b []byte) (h SubgroupHeader, n int, err error) {
	f := fields{varints: v.DataLayout().varint(), b: b}
	typ := f.varint()
	if f.err == nil {
		f.fail(v.DataLayout().types().checkSubgroup(typ))
	}
	h = SubgroupHeader{
		SubgroupIDMode:  SubgroupIDMode(typ & subgroupIDModeMask >> subgroupIDModeShift),
		DefaultPriority: typ&subgroupDefaultPriority != 0,
		HasProperties:   typ&subgroupProperties != 0,
		EndOfGroup:      typ&subgroupEndOfGroup != 0,
		FirstObject:     typ&subgroupFirstObject != 0,
		TrackAlias:      f.varint(),
		GroupID:         f.varint(),
	}
	if h.SubgroupIDMode == SubgroupIDPresent {
		h.SubgroupID = f.varint()
	}
	if !h.DefaultPriority {
		h.Priority = f.byte()
	}
	if f.err != nil {
		return SubgroupHeader{}, 0, f.err
	}
	return h, f.n, nil
}

// SubgroupObject is an object on a subgroup stream: its header and its place. Offsets count from the same origin as the
// start argument of NewSubgroupParser.
type SubgroupObject struct {
	ObjectHeader
	Start           int64 // first byte of the header
	IDEnd           int64 // after the Object ID Delta; the rest does not depend on earlier objects
	PropertiesStart int64 // first byte of the properties, after their length
	PayloadStart    int64
	End             int64 // after the last byte of the payload
}

// SubgroupParser finds the objects of a subgroup stream while its bytes arrive, in pieces of any size. It copies no
// payload, and keeps at most the header of one object.
type SubgroupParser struct {
	scanner       objectScanner
	varints       varintFormat
	group         uint64
	hasProperties bool
	first         bool // no object has been parsed
	object        SubgroupObject
}

// NewSubgroupParser returns a parser of the objects behind header h in layout l. start is the offset of the first byte
// after h.
func NewSubgroupParser(l DataLayout, h SubgroupHeader, start int64) *SubgroupParser {
	return &SubgroupParser{
		scanner:       objectScanner{offset: start, end: start},
		varints:       l.varint(),
		group:         h.GroupID,
		hasProperties: h.HasProperties,
		first:         true,
	}
}

// Next takes b, the next bytes of the stream, and consumes bytes until it has parsed the header of an object. It
// returns that object and the number of bytes consumed. The payload is not among them: the caller passes the rest of b
// and all that follows to the next calls, which skip the payload.
//
// If b does not complete a header, Next consumes all of b and returns ErrIncomplete. All other errors are final: a
// ProtocolError, a MalformedTrackError or ErrPropertiesTooLong. The object is valid until the next call; its Properties
// share memory with b or the parser.
func (p *SubgroupParser) Next(b []byte) (o *SubgroupObject, n int, err error) {
	n, err = p.scanner.next(b, p)
	if err != nil {
		return nil, n, err
	}
	return &p.object, n, nil
}

// Finish returns a ProtocolError if the stream is within an object and must not end here with a FIN (draft §11.4).
func (p *SubgroupParser) Finish() error { return p.scanner.finish() }

// Offset returns the offset of the next byte that Next expects.
func (p *SubgroupParser) Offset() int64 { return p.scanner.offset + p.scanner.carriedLen() }

// parseHeader implements headerParser.
func (p *SubgroupParser) parseHeader(b []byte, start int64) (n, need int, end int64, err error) {
	f := fields{varints: p.varints, b: b}
	o := SubgroupObject{Start: start}
	delta := f.varint()
	o.IDEnd = start + int64(f.n)
	if p.hasProperties {
		var length int
		o.Properties, length = f.properties()
		o.PropertiesStart = start + int64(f.n-length)
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

// SubgroupEncoder encodes the object headers of one subgroup stream.
type SubgroupEncoder struct {
	varints       varintFormat
	hasProperties bool
	started       bool
	last          uint64 // latest Object ID, if started
}

// NewSubgroupEncoder returns an encoder of the objects behind header h in layout l.
func NewSubgroupEncoder(l DataLayout, h SubgroupHeader) SubgroupEncoder {
	return SubgroupEncoder{varints: l.varint(), hasProperties: h.HasProperties}
}

// AppendObject appends all that precedes the payload of an object. Object IDs must increase. If a receiver would refuse
// o, it returns b unchanged and an error.
func (e *SubgroupEncoder) AppendObject(b []byte, o ObjectHeader) ([]byte, error) {
	delta := o.ObjectID
	if e.started {
		if o.ObjectID <= e.last {
			return b, fmt.Errorf("object %d after object %d", o.ObjectID, e.last)
		}
		delta -= e.last + 1
	}
	if err := o.validate(e.hasProperties); err != nil {
		return b, fmt.Errorf("object %d: %w", o.ObjectID, err)
	}
	properties, err := e.varints.properties(o.Properties)
	if err == nil {
		err = e.varints.check(delta, o.PayloadLength)
	}
	if err != nil {
		return b, fmt.Errorf("object %d: %w", o.ObjectID, err)
	}
	b = e.varints.append(b, delta)
	if e.hasProperties {
		b = e.varints.appendProperties(b, properties)
	}
	b = e.varints.append(b, o.PayloadLength)
	if o.PayloadLength == 0 {
		b = e.varints.append(b, uint64(o.Status))
	}
	e.started, e.last = true, o.ObjectID
	return b, nil
}

var (
	errNoProperties  = errors.New("properties on a stream whose header says that there are none")
	errStatusPayload = errors.New("a payload together with a status")
)
