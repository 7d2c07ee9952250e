package moqt

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
	// {start.Group, start.Object} itself is an empty range, not a smaller one.
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
