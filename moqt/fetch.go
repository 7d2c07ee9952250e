package moqt

import "fmt"

// FetchType is one of the three forms of FETCH (draft §10.12).
type FetchType uint64

// Fetch types.
const (
	FetchStandalone      FetchType = 0x1 // Track, Start, End
	FetchRelativeJoining FetchType = 0x2 // JoiningRequestID; JoiningStart groups before the Joining Location
	FetchAbsoluteJoining FetchType = 0x3 // JoiningRequestID; from group JoiningStart
)

// Fetch asks for objects that have been published already (draft §10.12).
type Fetch struct {
	RequestID uint64
	FetchType FetchType

	// Standalone fetches only. FetchRange(Start, End) is the range that they stand for.
	Track FullTrackName
	Start Location
	End   Location // the last object plus 1, or 0 for the whole group

	// Joining fetches only.
	JoiningRequestID uint64 // of the subscription to join
	JoiningStart     uint64

	Parameters Parameters
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

func (m *Fetch) encode(e *encoder) {
	e.varint(m.RequestID)
	e.fail(m.FetchType.validate())
	e.varint(uint64(m.FetchType))
	if m.FetchType == FetchStandalone {
		e.fullTrackName(m.Track)
		e.location(m.Start)
		e.location(m.End)
	} else {
		e.varint(m.JoiningRequestID)
		e.varint(m.JoiningStart)
	}
	e.parameters(&m.Parameters, inFetch)
}

func (m *Fetch) decode(d *decoder) {
	m.RequestID = d.varint()
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

// FetchOK accepts a FETCH (draft §10.13).
type FetchOK struct {
	EndOfTrack bool     // End is the final object of the track
	End        Location // encoded as in FETCH: the last object plus 1, or 0 for the whole group
	Parameters Parameters
	Properties Properties
}

// Type implements Message.
func (*FetchOK) Type() MessageType { return MessageFetchOK }

// CheckStart returns a ProtocolError if the response ends before start, the first location of the FETCH
// (draft §10.13).
func (m *FetchOK) CheckStart(start Location) error {
	// An End that equals start stands for an empty response, which is allowed.
	if wholeGroup := m.End.Object == 0; m.End.Group < start.Group || !wholeGroup && m.End.Less(start) {
		return violation("FETCH_OK ends at %s, the FETCH starts at %s", m.End, start)
	}
	return nil
}

func (m *FetchOK) encode(e *encoder) {
	e.bool(m.EndOfTrack)
	e.location(m.End)
	e.parameters(&m.Parameters, inFetchOK)
	e.properties(m.Properties)
}

func (m *FetchOK) decode(d *decoder) {
	m.EndOfTrack = d.bool("end of track")
	m.End = d.location()
	m.Parameters = d.parameters(inFetchOK)
	m.Properties = d.properties()
}
