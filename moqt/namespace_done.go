package moqt

// NamespaceDone takes back a NAMESPACE (draft §10.17).
type NamespaceDone struct {
	Suffix Namespace // what follows the prefix that was subscribed to
}

// Type implements Message.
func (*NamespaceDone) Type() MessageType { return MessageNamespaceDone }

func (m *NamespaceDone) encode(e *encoder) { e.namespace(m.Suffix) }

func (m *NamespaceDone) decode(d *decoder) { m.Suffix = d.namespace() }
