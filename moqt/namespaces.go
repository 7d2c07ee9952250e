package moqt

// PublishNamespace announces that the sender has tracks in a namespace (draft §10.15).
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
	m.RequestID = d.newRequest()
	m.Namespace = d.namespace()
	m.Parameters = d.parameters(inPublishNamespace)
}

// SubscribeNamespace asks for the namespaces below a prefix (draft §10.18).
type SubscribeNamespace struct {
	RequestID  uint64
	Prefix     Namespace // empty: all namespaces
	Parameters Parameters
	WithTracks bool // it is a SUBSCRIBE_TRACKS as well, which draft-16 can say; it is not sent
}

// Type implements Message.
func (*SubscribeNamespace) Type() MessageType { return MessageSubscribeNamespace }

func (m *SubscribeNamespace) encode(e *encoder) {
	e.varint(m.RequestID)
	e.namespace(m.Prefix)
	e.subscribeOptions(optionNamespaces)
	e.parameters(&m.Parameters, inSubscribeNamespace)
}

func (m *SubscribeNamespace) decode(d *decoder) {
	m.RequestID = d.newRequest()
	m.Prefix = d.namespace()
	m.Parameters = d.parameters(inSubscribeNamespace)
}

// NamespaceAdded is NAMESPACE: a namespace that matches a SUBSCRIBE_NAMESPACE (draft §10.16).
type NamespaceAdded struct {
	Suffix     Namespace   // what follows the prefix that was subscribed to
	Parameters *Parameters // not nil if the session has agreed on draft-lcurley-moq-cluster
}

// Type implements Message.
func (*NamespaceAdded) Type() MessageType { return MessageNamespace }

func (m *NamespaceAdded) encode(e *encoder) {
	e.namespace(m.Suffix)
	if m.Parameters != nil {
		e.parameters(m.Parameters, inNamespace)
	}
}

func (m *NamespaceAdded) decode(d *decoder) {
	m.Suffix = d.namespace()
	if len(d.b) > 0 {
		m.Parameters = new(d.parameters(inNamespace))
	}
}

// NamespaceDone withdraws a NAMESPACE (draft §10.17).
type NamespaceDone struct {
	Suffix Namespace // what follows the prefix that was subscribed to
}

// Type implements Message.
func (*NamespaceDone) Type() MessageType { return MessageNamespaceDone }

func (m *NamespaceDone) encode(e *encoder) { e.namespace(m.Suffix) }

func (m *NamespaceDone) decode(d *decoder) { m.Suffix = d.namespace() }

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
	e.subscribeOptions(optionTracks)
	e.parameters(&m.Parameters, inSubscribeTracks)
}

func (m *SubscribeTracks) decode(d *decoder) {
	m.RequestID = d.newRequest()
	m.Prefix = d.namespace()
	m.Parameters = d.parameters(inSubscribeTracks)
}

// PublishBlocked names a track that the sender cannot PUBLISH because it has no stream left (draft §10.20).
type PublishBlocked struct {
	Suffix    Namespace // what follows the prefix that was subscribed to
	TrackName string
}

// Type implements Message.
func (*PublishBlocked) Type() MessageType { return MessagePublishBlocked }

func (m *PublishBlocked) encode(e *encoder) { e.fullTrackName(FullTrackName{m.Suffix, m.TrackName}) }

func (m *PublishBlocked) decode(d *decoder) {
	t := d.fullTrackName()
	m.Suffix, m.TrackName = t.Namespace, t.Name
}
