package moqt

// PublishNamespace says that the sender has tracks in a namespace (draft §10.15).
type PublishNamespace struct {
	RequestID  uint64
	Namespace  Namespace
	Parameters Parameters
}

// Type implements Message.
func (*PublishNamespace) Type() MessageType { return MessagePublishNamespace }

func (m *PublishNamespace) encode(e *encoder) {
	e.varint(m.RequestID)
	e.namespace(m.Namespace)
	e.parameters(&m.Parameters, inPublishNamespace)
}

func (m *PublishNamespace) decode(d *decoder) {
	m.RequestID = d.varint()
	m.Namespace = d.namespace()
	m.Parameters = d.parameters(inPublishNamespace)
}
