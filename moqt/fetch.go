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

func (m *Fetch) fields(c *coder) {
	c.newRequest(&m.RequestID)
	if !c.wire.fetchTypes {
		m.filtered(c)
		return
	}
	c.varint((*uint64)(&m.FetchType))
	c.check(m.FetchType.validate())
	if m.FetchType == FetchStandalone {
		if last := c.wire.varint().max(); m.End.Group > last {
			m.End = Location{Group: last} // no later group exists in this version
		}
		m.Track.fields(c)
		m.Start.fields(c)
		m.End.fields(c)
	} else {
		c.varints(&m.JoiningRequestID, &m.JoiningStart)
	}
	m.Parameters.fields(c, inFetch)
}

// filtered is the fields after the Request ID since draft-20: the range is in LOCATION_FILTER.
func (m *Fetch) filtered(c *coder) {
	if c.writes {
		m.setFilter(c)
	}
	m.Track.fields(c)
	if m.Parameters.fields(c, inFetch); !c.writes {
		m.takeFilter()
	}
}

func (m *Fetch) setFilter(c *coder) {
	p := &m.Parameters
	switch m.FetchType {
	case FetchStandalone:
		p.Filter = filterOf(FetchRange(m.Start, m.End))
		if m.End.Group < m.Start.Group {
			c.fail(fmt.Errorf("the range ends in group %d, before its start %s", m.End.Group, m.Start))
		}
	case FetchRelative:
		p.Filter = &Filter{Type: FilterRelativeStart, Groups: m.JoiningStart}
	default:
		c.fail(fmt.Errorf("fetch type %#x does not exist in this version", uint64(m.FetchType)))
	}
}

func (m *Fetch) takeFilter() {
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

func (m *FetchOK) fields(c *coder) {
	if c.writes && !c.wire.fetchTypes {
		m.End.Object-- // wraps around: the whole group ends with the largest Object ID
	}
	c.request()
	c.bool(&m.EndOfTrack, "end of track")
	m.End.fields(c)
	if !c.writes && !c.wire.fetchTypes && c.err == nil {
		m.End.Object++
	}
	m.Parameters.fields(c, inFetchOK)
	c.properties(&m.Properties)
}
