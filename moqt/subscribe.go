package moqt

// Subscribe asks for the objects that are published from now on (draft §10.7).
type Subscribe struct {
	RequestID  uint64
	Track      FullTrackName
	Parameters Parameters
}

// Type implements Message.
func (*Subscribe) Type() MessageType { return MessageSubscribe }

func (m *Subscribe) encode(e *encoder) {
	e.varint(m.RequestID)
	e.fullTrackName(m.Track)
	e.parameters(&m.Parameters, inSubscribe)
}

func (m *Subscribe) decode(d *decoder) {
	m.RequestID = d.varint()
	m.Track = d.fullTrackName()
	m.Parameters = d.parameters(inSubscribe)
}
