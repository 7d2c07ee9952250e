package moqt

// RequestOK accepts a PUBLISH, REQUEST_UPDATE, TRACK_STATUS, SUBSCRIBE_NAMESPACE, SUBSCRIBE_TRACKS or
// PUBLISH_NAMESPACE. Which of them decides what it may contain, see Context (draft §10.5).
//
// The table of message types in draft §10 still lists PUBLISH_OK as 0x1E, although its format is that of REQUEST_OK,
// whose type is 0x7. This package sends 0x7 and accepts both.
type RequestOK struct {
	Parameters Parameters
	Properties Properties // in TRACK_STATUS_OK only
}

// Type implements Message.
func (*RequestOK) Type() MessageType { return MessageRequestOK }

func (m *RequestOK) encode(e *encoder) {
	e.parameters(&m.Parameters, inRequestOK)
	e.properties(m.Properties)
}

func (m *RequestOK) decode(d *decoder) {
	m.Parameters = d.parameters(inRequestOK)
	m.Properties = d.properties()
}
