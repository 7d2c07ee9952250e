package moqt

import "fmt"

// FetchType is a form of FETCH (draft §10.12). Since draft-20 it is not sent, as the range tells the form.
type FetchType uint64

// Fetch types.
const (
	FetchStandalone FetchType = 0x1 // Track, Start, End
	// Until draft-19:
	FetchRelativeJoining FetchType = 0x2 // JoiningRequestID; JoiningStart groups before the Joining Location
	FetchAbsoluteJoining FetchType = 0x3 // JoiningRequestID; from group JoiningStart
	// Since draft-20:
	FetchRelative FetchType = 0x4 // Track; from JoiningStart groups before the next one to the Largest Object
)

// Fetch asks for objects that have been published already (draft §10.12).
type Fetch struct {
	RequestID uint64
	FetchType FetchType

	// Standalone fetches only. FetchRange(Start, End) is the range that they stand for, in all versions.
	Track FullTrackName // also of relative fetches
	Start Location
	End   Location // the last object plus 1, or 0 for the whole group

	// Joining fetches only.
	JoiningRequestID uint64 // of the subscription to join
	JoiningStart     uint64 // also of relative fetches

	Parameters Parameters // without Filter: the range is above
}

// Type implements Message.
func (*Fetch) Type() MessageType { return MessageFetch }

// JoiningRange returns the range of a joining fetch, given the Joining Location of its subscription: from the start of
// a group to joining itself (draft §10.12.2.1). A relative start before the first group is the first group.
func (m *Fetch) JoiningRange(joining Location) Range {
	start := m.JoiningStart
	if m.FetchType == FetchRelativeJoining {
		start = joining.Group - min(joining.Group, m.JoiningStart)
	}
	return Range{Location{Group: start}, joining}
}

func (t FetchType) validate() error {
	if t < FetchStandalone || t > FetchAbsoluteJoining {
		return fmt.Errorf("unknown fetch type %#x", uint64(t))
	}
	return nil
}

// RelativeRange returns the range of a relative fetch, given the Largest Object of the track (draft-20 §5.1.2).
func (m *Fetch) RelativeRange(largest Location) Range {
	return (&Filter{Type: FilterRelativeStart, Groups: m.JoiningStart}).FillRange(largest)
}

func (m *Fetch) encode(e *encoder) {
	e.varint(m.RequestID)
	if !e.wire.fetchTypes {
		m.encodeFilter(e)
		return
	}
	e.fail(m.FetchType.validate())
	e.varint(uint64(m.FetchType))
	if m.FetchType == FetchStandalone {
		end := m.End
		if last := e.wire.varint().max(); end.Group > last {
			end = Location{Group: last} // no later group exists in this version
		}
		e.fullTrackName(m.Track)
		e.location(m.Start)
		e.location(end)
	} else {
		e.varint(m.JoiningRequestID)
		e.varint(m.JoiningStart)
	}
	e.parameters(&m.Parameters, inFetch)
}

// encodeFilter writes the fields after the Request ID since draft-20: the range is in LOCATION_FILTER.
func (m *Fetch) encodeFilter(e *encoder) {
	p := m.Parameters
	switch m.FetchType {
	case FetchStandalone:
		p.Filter = filterOf(FetchRange(m.Start, m.End))
		if m.End.Group < m.Start.Group {
			e.fail(fmt.Errorf("the range ends in group %d, before its start %s", m.End.Group, m.Start))
		}
	case FetchRelative:
		p.Filter = &Filter{Type: FilterRelativeStart, Groups: m.JoiningStart}
	default:
		e.fail(fmt.Errorf("fetch type %#x does not exist in this version", uint64(m.FetchType)))
	}
	e.fullTrackName(m.Track)
	e.parameters(&p, inFetch)
}

func (m *Fetch) decode(d *decoder) {
	m.RequestID = d.newRequest()
	if !d.wire.fetchTypes {
		m.decodeFilter(d)
		return
	}
	m.FetchType = FetchType(d.varint())
	d.check(m.FetchType.validate())
	if m.FetchType == FetchStandalone {
		m.Track = d.fullTrackName()
		m.Start = d.location()
		m.End = d.location()
	} else {
		m.JoiningRequestID = d.varint()
		m.JoiningStart = d.varint()
	}
	m.Parameters = d.parameters(inFetch)
}

func (m *Fetch) decodeFilter(d *decoder) {
	m.Track = d.fullTrackName()
	m.Parameters = d.parameters(inFetch)
	f := m.Parameters.Filter
	m.Parameters.Filter = nil
	if f != nil && (f.Type == FilterRelativeStart || f.Type == FilterLargestObject) {
		m.FetchType, m.JoiningStart = FetchRelative, f.Groups // the Next Object has not been published either
		return
	}
	r := f.Range(nil)
	m.FetchType, m.Start, m.End = FetchStandalone, r.Start, r.FetchEnd()
}

// FetchOK accepts a FETCH (draft §10.13).
type FetchOK struct {
	EndOfTrack bool     // End is the final object of the track
	End        Location // as in Fetch: the last object plus 1, or 0 for the whole group
	Parameters Parameters
	Properties Properties
}

// Type implements Message.
func (*FetchOK) Type() MessageType { return MessageFetchOK }

// CheckStart returns a ProtocolError if the response ends before start, the first location of the FETCH
// (draft §10.13).
func (m *FetchOK) CheckStart(v Version, start Location) error {
	// Until draft-19, an End that equals start stands for an empty response, which is allowed.
	empty := m.End == start && v.wire().fetchTypes
	if wholeGroup := m.End.Object == 0; m.End.Group < start.Group || !wholeGroup && !empty && !start.Less(m.End) {
		return violation("FETCH_OK ends at %s, the FETCH starts at %s", m.End, start)
	}
	return nil
}

func (m *FetchOK) encode(e *encoder) {
	end := m.End
	if !e.wire.fetchTypes {
		end.Object-- // wraps around: the whole group ends with the largest Object ID
	}
	e.request()
	e.bool(m.EndOfTrack)
	e.location(end)
	e.parameters(&m.Parameters, inFetchOK)
	e.properties(m.Properties)
}

func (m *FetchOK) decode(d *decoder) {
	d.request()
	m.EndOfTrack = d.bool("end of track")
	if m.End = d.location(); !d.wire.fetchTypes && d.err == nil {
		m.End.Object++
	}
	m.Parameters = d.parameters(inFetchOK)
	m.Properties = d.properties()
}
