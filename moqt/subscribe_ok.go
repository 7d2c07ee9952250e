package moqt

// SubscribeOK accepts a SUBSCRIBE (draft §10.8).
type SubscribeOK struct {
	TrackAlias uint64
	Parameters Parameters
	Properties Properties
}

// Type implements Message.
func (*SubscribeOK) Type() MessageType { return MessageSubscribeOK }

func (m *SubscribeOK) encode(e *encoder) {
	e.varint(m.TrackAlias)
	e.parameters(&m.Parameters, inSubscribeOK)
	e.properties(m.Properties)
}

func (m *SubscribeOK) decode(d *decoder) {
	m.TrackAlias = d.varint()
	m.Parameters = d.parameters(inSubscribeOK)
	m.Properties = d.properties()
}
