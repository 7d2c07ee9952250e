package moqt

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
	m.RequestID = d.varint()
	m.Track = d.fullTrackName()
	m.TrackAlias = d.varint()
	m.Parameters = d.parameters(inPublish)
	m.Properties = d.properties()
}

// UnknownStreamCount is the Stream Count of a publisher that does not know how many streams it opened (draft §10.11).
const UnknownStreamCount = 1<<62 - 1

// PublishDone ends a subscription; the publisher sends it after it has closed all its streams (draft §10.11).
type PublishDone struct {
	Status      PublishDoneCode
	StreamCount uint64 // data streams that the publisher opened, or UnknownStreamCount
	Reason      string // truncated to MaxReasonLen when it is sent
}

// Type implements Message.
func (*PublishDone) Type() MessageType { return MessagePublishDone }

func (m *PublishDone) encode(e *encoder) {
	e.varint(uint64(m.Status))
	e.varint(m.StreamCount)
	e.reason(m.Reason)
}

func (m *PublishDone) decode(d *decoder) {
	m.Status = PublishDoneCode(d.varint())
	m.StreamCount = d.varint()
	m.Reason = d.reason()
}
