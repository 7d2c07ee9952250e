package moqt

// SubscribeTracks asks for a PUBLISH for each track below a prefix (draft §10.19).
type SubscribeTracks struct {
	RequestID  uint64
	Prefix     Namespace // empty: all tracks
	Parameters Parameters
}

// Type implements Message.
func (*SubscribeTracks) Type() MessageType { return MessageSubscribeTracks }

func (m *SubscribeTracks) encode(e *encoder) {
	e.varint(m.RequestID)
	e.namespace(m.Prefix)
	e.parameters(&m.Parameters, inSubscribeTracks)
}

func (m *SubscribeTracks) decode(d *decoder) {
	m.RequestID = d.varint()
	m.Prefix = d.namespace()
	m.Parameters = d.parameters(inSubscribeTracks)
}
