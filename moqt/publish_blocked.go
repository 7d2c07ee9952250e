package moqt

// PublishBlocked names a track for which the sender has no stream left to send PUBLISH (draft §10.20).
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
