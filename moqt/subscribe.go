package moqt

import "errors"

// Subscribe asks for the objects that are published from now on (draft §10.7).
type Subscribe struct {
	RequestID  uint64
	Track      FullTrackName
	Parameters Parameters
}

// Type implements Message.
func (*Subscribe) Type() MessageType { return MessageSubscribe }

func (m *Subscribe) fields(c *coder) {
	c.newRequest(&m.RequestID)
	m.Track.fields(c)
	m.Parameters.fields(c, inSubscribe)
}

// SubscribeOK accepts a SUBSCRIBE (draft §10.8).
type SubscribeOK struct {
	TrackAlias uint64
	Parameters Parameters
	Properties Properties
}

// Type implements Message.
func (*SubscribeOK) Type() MessageType { return MessageSubscribeOK }

func (m *SubscribeOK) fields(c *coder) {
	c.request()
	c.varint(&m.TrackAlias)
	m.Parameters.fields(c, inSubscribeOK)
	c.properties(&m.Properties)
}

// Unsubscribe ends a subscription in draft-16; draft-18 uses STOP_SENDING instead. Subscribers built on the Rust crate
// moq-transport 0.17 still send it, without fields, whenever they drop a subscription. Closing the session over it
// would end all their other subscriptions, so this package accepts it in draft-18, and sends it in draft-16 only.
type Unsubscribe struct{}

// Type implements Message.
func (*Unsubscribe) Type() MessageType { return MessageUnsubscribe }

func (*Unsubscribe) fields(c *coder) {
	if c.writes && !c.wire.references {
		c.fail(errors.New("send STOP_SENDING on the request stream instead"))
	}
	c.request()
}

// TrackStatus asks what the answer to a SUBSCRIBE would be, without subscribing (draft §10.14).
type TrackStatus struct {
	RequestID  uint64
	Track      FullTrackName
	Parameters Parameters
}

// Type implements Message.
func (*TrackStatus) Type() MessageType { return MessageTrackStatus }

func (m *TrackStatus) fields(c *coder) {
	c.newRequest(&m.RequestID)
	m.Track.fields(c)
	m.Parameters.fields(c, inTrackStatus)
}
