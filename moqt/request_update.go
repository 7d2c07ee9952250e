package moqt

// RequestUpdate changes the parameters of a request; those that are absent stay as they are (draft §10.9).
type RequestUpdate struct {
	RequestID  uint64 // of the update itself
	Parameters Parameters
}

// Type implements Message.
func (*RequestUpdate) Type() MessageType { return MessageRequestUpdate }

func (m *RequestUpdate) encode(e *encoder) {
	e.varint(m.RequestID)
	e.parameters(&m.Parameters, inUpdate)
}

func (m *RequestUpdate) decode(d *decoder) {
	m.RequestID = d.varint()
	m.Parameters = d.parameters(inUpdate)
}
