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

func (m *Publish) encode(e *encoder) {
	e.varint(m.RequestID)
	e.fullTrackName(m.Track)
	e.varint(m.TrackAlias)
	e.parameters(&m.Parameters, inPublish)
	e.properties(m.Properties)
}

func (m *Publish) decode(d *decoder) {
	m.RequestID = d.newRequest()
	m.Track = d.fullTrackName()
	m.TrackAlias = d.varint()
	m.Parameters = d.parameters(inPublish)
	m.Properties = d.properties()
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

func (m *PublishDone) encode(e *encoder) {
	e.request()
	e.varint(uint64(e.wire.former.doneCode(m.Status)))
	if m.StreamCount == UnknownStreamCount {
		e.varint(e.wire.unknownStreams)
	} else {
		e.varint(m.StreamCount)
	}
	e.reason(m.Reason)
}

func (m *PublishDone) decode(d *decoder) {
	d.request()
	m.Status = d.wire.former.knownDone(PublishDoneCode(d.varint()))
	if m.StreamCount = d.varint(); m.StreamCount == d.wire.unknownStreams {
		m.StreamCount = UnknownStreamCount
	}
	m.Reason = d.reason()
}

// StateNotify is PUBLISH_STATE_NOTIFY: the publisher tells what has changed about a subscription without an update of
// the subscriber (draft-20 §10.10). It has no answer.
type StateNotify struct {
	Parameters Parameters // with LargestObject, if there is one
}

// Type implements Message.
func (*StateNotify) Type() MessageType { return MessageStateNotify }

func (m *StateNotify) encode(e *encoder) { e.parameters(&m.Parameters, inStateNotify) }

func (m *StateNotify) decode(d *decoder) { m.Parameters = d.parameters(inStateNotify) }
