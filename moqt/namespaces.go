package moqt

// PublishNamespace announces that the sender has tracks in a namespace (draft §10.15).
type PublishNamespace struct {
	RequestID  uint64
	Namespace  Namespace
	Parameters Parameters
}

// Type implements Message.
func (*PublishNamespace) Type() MessageType { return MessagePublishNamespace }

func (m *PublishNamespace) fields(c *coder) {
	c.newRequest(&m.RequestID)
	m.Namespace.fields(c)
	m.Parameters.fields(c, inPublishNamespace)
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

func (m *SubscribeNamespace) fields(c *coder) {
	c.newRequest(&m.RequestID)
	m.Prefix.fields(c)
	subscribeOptions(c, optionNamespaces)
	m.Parameters.fields(c, inSubscribeNamespace)
}

// NamespaceAdded is NAMESPACE: a namespace that matches a SUBSCRIBE_NAMESPACE (draft §10.16).
type NamespaceAdded struct {
	Suffix     Namespace   // what follows the prefix that was subscribed to
	Parameters *Parameters // not nil if the session has agreed on draft-lcurley-moq-cluster
}

// Type implements Message.
func (*NamespaceAdded) Type() MessageType { return MessageNamespace }

func (m *NamespaceAdded) fields(c *coder) {
	m.Suffix.fields(c)
	if !c.writes && len(c.b) > 0 {
		m.Parameters = new(Parameters)
	}
	if m.Parameters != nil {
		m.Parameters.fields(c, inNamespace)
	}
}

// NamespaceDone withdraws a NAMESPACE (draft §10.17).
type NamespaceDone struct {
	Suffix Namespace // what follows the prefix that was subscribed to
}

// Type implements Message.
func (*NamespaceDone) Type() MessageType { return MessageNamespaceDone }

func (m *NamespaceDone) fields(c *coder) { m.Suffix.fields(c) }

// SubscribeTracks asks for a PUBLISH for each track below a prefix (draft §10.19).
type SubscribeTracks struct {
	RequestID  uint64
	Prefix     Namespace // empty: all tracks
	Parameters Parameters
}

// Type implements Message.
func (*SubscribeTracks) Type() MessageType { return MessageSubscribeTracks }

func (m *SubscribeTracks) fields(c *coder) {
	c.newRequest(&m.RequestID)
	m.Prefix.fields(c)
	subscribeOptions(c, optionTracks)
	m.Parameters.fields(c, inSubscribeTracks)
}

// PublishBlocked names a track that the sender cannot PUBLISH because it has no stream left (draft §10.20).
type PublishBlocked struct {
	Suffix    Namespace // what follows the prefix that was subscribed to
	TrackName string
}

// Type implements Message.
func (*PublishBlocked) Type() MessageType { return MessagePublishBlocked }

func (m *PublishBlocked) fields(c *coder) {
	t := FullTrackName{m.Suffix, m.TrackName}
	t.fields(c)
	m.Suffix, m.TrackName = t.Namespace, t.Name
}
