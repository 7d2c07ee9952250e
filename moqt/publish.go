package moqt

import "math"

// Publish starts a subscription from the publisher's side (draft §10.10).
type Publish struct {
	RequestID  uint64
	Track      FullTrackName
	TrackAlias uint64
	Parameters Parameters
	Properties Properties
}

// Type implements Message.
func (*Publish) Type() MessageType { return MessagePublish }

func (m *Publish) fields(c *coder) {
	c.newRequest(&m.RequestID)
	m.Track.fields(c)
	c.varint(&m.TrackAlias)
	m.Parameters.fields(c, inPublish)
	c.properties(&m.Properties)
}

// UnknownStreamCount is the Stream Count of a publisher that does not know how many streams it opened (draft §10.11).
// Before draft-20, 2^62-1 is sent for it.
const UnknownStreamCount = math.MaxUint64

// PublishDone ends a subscription; the publisher sends it after it has closed all its streams (draft §10.11).
type PublishDone struct {
	Status      PublishDoneCode
	StreamCount uint64 // data streams that the publisher opened, or UnknownStreamCount
	Reason      string // truncated to MaxReasonLen when it is sent
}

// Type implements Message.
func (*PublishDone) Type() MessageType { return MessagePublishDone }

func (m *PublishDone) fields(c *coder) {
	if c.writes {
		m.Status = substitute(c.wire.former.done, m.Status)
		if m.StreamCount == UnknownStreamCount {
			m.StreamCount = c.wire.unknownStreams
		}
	}
	c.request()
	c.varints((*uint64)(&m.Status), &m.StreamCount)
	c.reason(&m.Reason)
	if c.writes {
		return
	}
	m.Status = substitute(c.wire.former.received, m.Status)
	if m.StreamCount == c.wire.unknownStreams {
		m.StreamCount = UnknownStreamCount
	}
}

// StateNotify is PUBLISH_STATE_NOTIFY: the publisher tells what has changed about a subscription without an update of
// the subscriber (draft-20 §10.10). It has no answer.
type StateNotify struct {
	Parameters Parameters // with LargestObject, if there is one
}

// Type implements Message.
func (*StateNotify) Type() MessageType { return MessageStateNotify }

func (m *StateNotify) fields(c *coder) { m.Parameters.fields(c, inStateNotify) }
