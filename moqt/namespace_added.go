package moqt

// NamespaceAdded is NAMESPACE: a namespace that matches a SUBSCRIBE_NAMESPACE (draft §10.16).
type NamespaceAdded struct {
	Suffix Namespace // what follows the prefix that was subscribed to
}

// Type implements Message.
func (*NamespaceAdded) Type() MessageType { return MessageNamespace }

func (m *NamespaceAdded) encode(e *encoder) { e.namespace(m.Suffix) }

func (m *NamespaceAdded) decode(d *decoder) { m.Suffix = d.namespace() }
