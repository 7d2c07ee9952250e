package moqt

// UnknownStreamCount is the Stream Count of a publisher that cannot tell how many streams it opened (draft §10.11).
const UnknownStreamCount = 1<<62 - 1

// PublishDone ends a subscription; the publisher sends it after it has closed all its streams (draft §10.11).
type PublishDone struct {
	Status      PublishDoneCode
	StreamCount uint64 // data streams that the publisher opened, or UnknownStreamCount
	Reason      string // cut at MaxReasonLen when it is sent
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
