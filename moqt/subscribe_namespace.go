package moqt

// SubscribeNamespace asks for the namespaces below a prefix (draft §10.18).
type SubscribeNamespace struct {
	RequestID  uint64
	Prefix     Namespace // empty: all namespaces
	Parameters Parameters
}

// Type implements Message.
func (*SubscribeNamespace) Type() MessageType { return MessageSubscribeNamespace }

func (m *SubscribeNamespace) encode(e *encoder) {
	e.varint(m.RequestID)
	e.namespace(m.Prefix)
	e.parameters(&m.Parameters, inSubscribeNamespace)
}

func (m *SubscribeNamespace) decode(d *decoder) {
	m.RequestID = d.varint()
	m.Prefix = d.namespace()
	m.Parameters = d.parameters(inSubscribeNamespace)
}
