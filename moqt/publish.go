package moqt

// Publish starts a subscription from the publisher's side (draft §10.10).
type Publish struct {
	RequestID  uint64
	Track      FullTrackName
	TrackAlias uint64
	Parameters Parameters
	Properties Properties
}

// Type implements Message.
func (*Publish) Type() MessageType { return MessagePublish }

func (m *Publish) encode(e *encoder) {
	e.varint(m.RequestID)
	e.fullTrackName(m.Track)
	e.varint(m.TrackAlias)
	e.parameters(&m.Parameters, inPublish)
	e.properties(m.Properties)
}

func (m *Publish) decode(d *decoder) {
	m.RequestID = d.varint()
	m.Track = d.fullTrackName()
	m.TrackAlias = d.varint()
	m.Parameters = d.parameters(inPublish)
	m.Properties = d.properties()
}
