package moqt

// TrackStatus asks what a SUBSCRIBE would be answered, without subscribing (draft §10.14).
type TrackStatus struct {
	RequestID  uint64
	Track      FullTrackName
	Parameters Parameters
}

// Type implements Message.
func (*TrackStatus) Type() MessageType { return MessageTrackStatus }

func (m *TrackStatus) encode(e *encoder) {
	e.varint(m.RequestID)
	e.fullTrackName(m.Track)
	e.parameters(&m.Parameters, inTrackStatus)
}

func (m *TrackStatus) decode(d *decoder) {
	m.RequestID = d.varint()
	m.Track = d.fullTrackName()
	m.Parameters = d.parameters(inTrackStatus)
}
