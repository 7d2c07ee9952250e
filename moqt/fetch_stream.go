package moqt

import (
	"fmt"
	"math"
)

// FetchHeader starts the stream that carries the objects of a FETCH (draft §11.4.4).
type FetchHeader struct {
	RequestID uint64 // of the FETCH
}

// AppendFetchHeader appends h.
func AppendFetchHeader(b []byte, v Version, h FetchHeader) []byte {
	varints := v.wire().varint()
	return varints.append(varints.append(b, v.wire().streams.fetch), h.RequestID)
}

// ParseFetchHeader decodes the header at the start of b, type included, and returns its encoded length. It returns
// ErrIncomplete if b ends within the header.
func ParseFetchHeader(v Version, b []byte) (h FetchHeader, n int, err error) {
	f := fields{varints: v.wire().varint(), b: b}
	if typ := f.varint(); typ != v.wire().streams.fetch {
		f.fail(violation("stream type %#x is not FETCH_HEADER", typ))
	}
	h.RequestID = f.varint()
	if f.err != nil {
		return FetchHeader{}, 0, f.err
	}
	return h, f.n, nil
}

// FetchKind distinguishes the objects of a FETCH response from the markers between them (draft §11.4.4).
type FetchKind uint8

// Fetch kinds. A range starts after the previous object or marker and ends with the Location of its own marker.
const (
	FetchKindObject      FetchKind = iota // an object
	FetchKindNonExistent                  // End of Non-Existent Range: the objects of the range do not exist
	FetchKindUnknown                      // End of Unknown Range: it is not known whether they exist
	FetchKindTimedOut                     // End of Timed-Out Range: the same, for lack of time; since draft-20
)

// FetchObject is a marker, or an object without its payload, in a FETCH response.
type FetchObject struct {
	Kind     FetchKind
	Location Location

	// Objects only.
	Datagram      bool   // the Object Forwarding Preference is Datagram; there is no Subgroup ID
	SubgroupID    uint64 // unless Datagram
	Priority      uint8  // Publisher Priority
	Properties    Properties
	PayloadLength uint64 // bytes
}

// Serialization Flags (draft §11.4.4.1, §11.4.4.2).
const (
	fetchSubgroupMask     = 0x03
	fetchSubgroupZero     = 0x00
	fetchSubgroupPrior    = 0x01
	fetchSubgroupPriorInc = 0x02
	fetchSubgroupPresent  = 0x03
	fetchObjectID         = 0x04
	fetchGroupID          = 0x08
	fetchPriority         = 0x10
	fetchProperties       = 0x20
	fetchDatagram         = 0x40
	maxFetchFlags         = 0x7f
	fetchNonExistentRange = 0x8c
	fetchUnknownRange     = 0x10c
	fetchTimedOutRange    = 0x20c
)

// fetchState is the "prior Object" to which the flags refer.
type fetchState struct {
	hasLocation bool
	location    Location // of the latest object or marker
	hasObject   bool
	priority    uint8 // of the latest object
	hasSubgroup bool  // the latest object was not a datagram
	subgroup    uint64
}

// advance makes o the prior object. Markers change the location only (draft §11.4.4.2).
func (s *fetchState) advance(o *FetchObject) {
	s.hasLocation, s.location = true, o.Location
	if o.Kind != FetchKindObject {
		return
	}
	s.hasObject, s.priority = true, o.Priority
	s.hasSubgroup, s.subgroup = !o.Datagram, o.SubgroupID
}

// FetchItem is a FetchObject and its place in the stream. Offsets count from the same origin as the start argument of
// NewFetchParser.
type FetchItem struct {
	FetchObject
	Start        int64 // first byte of the header
	PayloadStart int64
	End          int64 // after the last byte of the payload
}

// FetchParser finds the objects of a FETCH response while its bytes arrive, in pieces of any size. It copies no
// payload, and keeps at most the header of one object.
type FetchParser struct {
	scanner objectScanner
	wire    *wire
	order   GroupOrder
	prior   fetchState
	item    FetchItem
}

// NewFetchParser returns a parser of the items behind the FETCH_HEADER. start is the offset of the first byte after the
// header. order is the Group Order of the FETCH: the encoding of Group IDs depends on it.
func NewFetchParser(v Version, order GroupOrder, start int64) *FetchParser {
	return &FetchParser{scanner: objectScanner{offset: start, end: start}, wire: v.wire(), order: order}
}

// Next works like SubgroupParser.Next.
func (p *FetchParser) Next(b []byte) (item *FetchItem, n int, err error) {
	n, err = p.scanner.next(b, p)
	if err != nil {
		return nil, n, err
	}
	return &p.item, n, nil
}

// Finish returns a ProtocolError if the stream is within an object and must not end here with a FIN (draft §11.4).
func (p *FetchParser) Finish() error { return p.scanner.finish() }

// parseHeader implements headerParser.
func (p *FetchParser) parseHeader(b []byte, start int64) (n, need int, end int64, err error) {
	f := fields{varints: p.wire.varint(), b: b}
	var o FetchObject
	switch flags := f.varint(); {
	case flags == fetchNonExistentRange, flags == fetchUnknownRange,
		flags == fetchTimedOutRange && p.wire.timedOutRanges:
		o = parseMarker(&f, flags)
	case flags > maxFetchFlags:
		f.fail(violation("unknown serialization flags %#x", flags))
	default:
		o = p.parseObject(&f, flags)
	}
	if f.err != nil {
		return 0, f.need, 0, f.err
	}
	if err := o.Properties.CheckObject(o.Location); err != nil {
		return 0, 0, 0, err
	}
	item := FetchItem{FetchObject: o, Start: start, PayloadStart: start + int64(f.n)}
	if item.End, err = objectEnd(item.PayloadStart, o.PayloadLength); err != nil {
		return 0, 0, 0, err
	}
	p.item = item
	p.prior.advance(&o)
	return f.n, 0, item.End, nil
}

// parseMarker parses the rest of an End of Range indicator. Its ids are absolute: draft §11.4.4.2 speaks of "the
// Group ID and Object ID fields" and not of deltas, and with deltas a range could not end in the group in which it
// starts. No payload length follows.
func parseMarker(f *fields, flags uint64) FetchObject {
	kind := FetchKindNonExistent
	switch flags {
	case fetchUnknownRange:
		kind = FetchKindUnknown
	case fetchTimedOutRange:
		kind = FetchKindTimedOut
	}
	group, object := f.varint(), f.varint()
	if object == f.varints.max() {
		object = math.MaxUint64 // the range ends with its group, in all versions
	}
	return FetchObject{Kind: kind, Location: Location{group, object}}
}

// parseObject parses the rest of an object header, in the order of its fields.
func (p *FetchParser) parseObject(f *fields, flags uint64) (o FetchObject) {
	o.Location.Group = p.group(f, flags)
	if o.Datagram = flags&fetchDatagram != 0; !o.Datagram {
		o.SubgroupID = p.subgroup(f, flags&fetchSubgroupMask)
	}
	o.Location.Object = p.objectID(f, flags)
	switch {
	case flags&fetchPriority != 0:
		o.Priority = f.byte()
	case !p.prior.hasObject:
		f.fail(violation("first object refers to the priority of a prior one"))
	default:
		o.Priority = p.prior.priority
	}
	if flags&fetchProperties != 0 {
		o.Properties, _ = f.properties()
	}
	o.PayloadLength = f.varint()
	return o
}

func (p *FetchParser) group(f *fields, flags uint64) uint64 {
	if flags&fetchGroupID == 0 {
		if !p.prior.hasLocation {
			f.fail(violation("first object refers to the group of a prior one"))
		}
		return p.prior.location.Group
	}
	delta := f.varint()
	prior := p.prior.location.Group
	switch {
	case !p.prior.hasLocation || p.wire.absoluteFetchIDs:
		return delta
	case p.order == Descending:
		if delta >= prior {
			f.fail(violation("group id of a fetched object is below 0"))
		}
		return prior - 1 - delta
	default:
		if delta >= math.MaxUint64-prior {
			f.fail(violation("group id of a fetched object exceeds 2^64-1"))
		}
		return prior + 1 + delta
	}
}

func (p *FetchParser) subgroup(f *fields, mode uint64) uint64 {
	switch mode {
	case fetchSubgroupZero:
		return 0
	case fetchSubgroupPresent:
		return f.varint()
	}
	if !p.prior.hasSubgroup {
		f.fail(violation("fetched object refers to the subgroup of a prior one that has none"))
	}
	if mode == fetchSubgroupPrior {
		return p.prior.subgroup
	}
	if p.prior.subgroup == math.MaxUint64 {
		f.fail(violation("subgroup id of a fetched object exceeds 2^64-1"))
	}
	return p.prior.subgroup + 1
}

func (p *FetchParser) objectID(f *fields, flags uint64) uint64 {
	delta := uint64(1)
	if flags&fetchObjectID != 0 {
		delta = f.varint()
		if !p.prior.hasLocation || flags&fetchGroupID != 0 || p.wire.absoluteFetchIDs {
			return delta // absolute
		}
	} else if !p.prior.hasLocation {
		f.fail(violation("first object refers to the id of a prior one"))
	}
	if delta > math.MaxUint64-p.prior.location.Object {
		f.fail(violation("object id of a fetched object exceeds 2^64-1"))
	}
	return p.prior.location.Object + delta
}

// FetchEncoder encodes the objects and markers of one FETCH response, each as short as possible.
type FetchEncoder struct {
	wire  *wire
	order GroupOrder
	prior fetchState
}

// NewFetchEncoder returns an encoder of the items behind the FETCH_HEADER. order is the Group Order of the FETCH.
func NewFetchEncoder(v Version, order GroupOrder) FetchEncoder {
	return FetchEncoder{wire: v.wire(), order: order}
}

// AppendObject appends a marker, or all that precedes the payload of an object. Groups must come in the order of the
// FETCH, and objects in ascending order within their group. Otherwise it returns b unchanged and an error.
func (e *FetchEncoder) AppendObject(b []byte, o *FetchObject) ([]byte, error) {
	if err := e.check(o); err != nil {
		return b, err
	}
	varints := e.wire.varint()
	properties, err := varints.properties(o.Properties)
	at := o.Location
	if o.Kind != FetchKindObject {
		at.Object = min(at.Object, varints.max()) // no larger id exists in this version
	}
	if err == nil {
		err = varints.check(at.Group, at.Object, o.SubgroupID, o.PayloadLength)
	}
	if err != nil {
		return b, fmt.Errorf("object %s: %w", o.Location, err)
	}
	if o.Kind == FetchKindObject {
		b = e.appendObject(b, o, properties)
	} else {
		b = varints.append(b, e.marker(o.Kind))
		b = varints.append(varints.append(b, at.Group), at.Object)
	}
	e.prior.advance(o)
	return b, nil
}

// marker returns the Serialization Flags of an End of Range indicator.
func (e *FetchEncoder) marker(k FetchKind) uint64 {
	switch {
	case k == FetchKindNonExistent:
		return fetchNonExistentRange
	case k == FetchKindTimedOut && e.wire.timedOutRanges:
		return fetchTimedOutRange
	}
	return fetchUnknownRange
}

func (e *FetchEncoder) check(o *FetchObject) error {
	if len(o.Properties) > MaxObjectPropertiesLen {
		return ErrPropertiesTooLong
	}
	if !e.prior.hasLocation {
		return nil
	}
	prior, inOrder := e.prior.location, false
	switch {
	case o.Location.Group == prior.Group:
		inOrder = o.Location.Object > prior.Object
	case e.order == Descending:
		inOrder = o.Location.Group < prior.Group
	default:
		inOrder = o.Location.Group > prior.Group
	}
	if !inOrder {
		return fmt.Errorf("object %s after %s in a response with %s groups", o.Location, prior, e.order)
	}
	return nil
}

// appendObject appends an object. The properties are in the wire format already.
func (e *FetchEncoder) appendObject(b []byte, o *FetchObject, properties Properties) []byte {
	varints, flags := e.wire.varint(), e.flags(o)
	b = varints.append(b, flags)
	if flags&fetchGroupID != 0 {
		b = varints.append(b, e.groupDelta(o.Location.Group))
	}
	if flags&fetchSubgroupMask == fetchSubgroupPresent {
		b = varints.append(b, o.SubgroupID)
	}
	if flags&fetchObjectID != 0 {
		id := o.Location.Object
		if flags&fetchGroupID == 0 && !e.wire.absoluteFetchIDs {
			id -= e.prior.location.Object
		}
		b = varints.append(b, id)
	}
	if flags&fetchPriority != 0 {
		b = append(b, o.Priority)
	}
	if flags&fetchProperties != 0 {
		b = varints.appendProperties(b, properties)
	}
	return varints.append(b, o.PayloadLength)
}

// flags returns the Serialization Flags with the fewest fields, given the prior object.
func (e *FetchEncoder) flags(o *FetchObject) uint64 {
	flags := e.subgroupFlags(o)
	if !e.prior.hasLocation || o.Location.Group != e.prior.location.Group {
		flags |= fetchGroupID
	}
	// An id of 0 does not follow the largest Object ID, although id-1 wraps around to it.
	if id := o.Location.Object; !e.prior.hasLocation || id == 0 || id-1 != e.prior.location.Object {
		flags |= fetchObjectID
	}
	if !e.prior.hasObject || o.Priority != e.prior.priority {
		flags |= fetchPriority
	}
	if len(o.Properties) > 0 {
		flags |= fetchProperties
	}
	return flags
}

func (e *FetchEncoder) subgroupFlags(o *FetchObject) uint64 {
	switch {
	case o.Datagram:
		return fetchDatagram
	case o.SubgroupID == 0:
		return fetchSubgroupZero
	case e.prior.hasSubgroup && o.SubgroupID == e.prior.subgroup:
		return fetchSubgroupPrior
	case e.prior.hasSubgroup && o.SubgroupID-1 == e.prior.subgroup:
		return fetchSubgroupPriorInc
	}
	return fetchSubgroupPresent
}

// groupDelta returns the Group ID Delta of a group that is not the prior one (draft §11.4.4.1).
func (e *FetchEncoder) groupDelta(group uint64) uint64 {
	switch {
	case !e.prior.hasLocation || e.wire.absoluteFetchIDs:
		return group
	case e.order == Descending:
		return e.prior.location.Group - group - 1
	default:
		return group - e.prior.location.Group - 1
	}
}
