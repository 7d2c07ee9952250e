package moqt

import "math"

// FetchItem is a FetchObject and where it lies. Offsets count from the same origin as the start that NewFetchParser
// was given.
type FetchItem struct {
	FetchObject
	Start        int64 // first byte of the header
	PayloadStart int64
	End          int64 // after the last byte of the payload
}

// FetchParser finds the objects of a FETCH response while its bytes come in, in pieces of any size. It copies no
// payload and keeps no more than the header of one object.
type FetchParser struct {
	scanner objectScanner
	order   GroupOrder
	prior   fetchState
	item    FetchItem
}

// NewFetchParser returns a parser of what follows the FETCH_HEADER; start is the offset of the first byte after it and
// order the Group Order of the FETCH, without which groups cannot be told.
func NewFetchParser(order GroupOrder, start int64) *FetchParser {
	return &FetchParser{scanner: objectScanner{offset: start, end: start}, order: order}
}

// Next works like SubgroupParser.Next.
func (p *FetchParser) Next(b []byte) (item *FetchItem, n int, err error) {
	n, err = p.scanner.next(b, p)
	if err != nil {
		return nil, n, err
	}
	return &p.item, n, nil
}

// Finish returns a ProtocolError if the stream may not end here with a FIN because it is within an object
// (draft §11.4).
func (p *FetchParser) Finish() error { return p.scanner.finish() }

// parseHeader implements headerParser.
func (p *FetchParser) parseHeader(b []byte, start int64) (n, need int, end int64, err error) {
	f := fields{b: b}
	var o FetchObject
	switch flags := f.varint(); {
	case flags == fetchNonExistentRange, flags == fetchUnknownRange:
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
// Group ID and Object ID fields" and not of deltas, by which a range could not end in the group it starts in. No
// payload length follows.
func parseMarker(f *fields, flags uint64) FetchObject {
	kind := FetchKindNonExistent
	if flags == fetchUnknownRange {
		kind = FetchKindUnknown
	}
	group := f.varint()
	return FetchObject{Kind: kind, Location: Location{group, f.varint()}}
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
		o.Properties = f.properties()
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
	case !p.prior.hasLocation:
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
		if !p.prior.hasLocation || flags&fetchGroupID != 0 {
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
