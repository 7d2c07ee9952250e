package moqt

// MaxURILen is the longest New Session URI, in bytes (draft §10.4). The draft sets no limit for the Connect URI of a
// Redirect; the same one is used.
const MaxURILen = 8192

// Goaway asks the peer to move to another session, or on a request stream to move that request (draft §10.4). Peers
// built on the Rust crate moq-transport 0.17 know no field but the URI and close the session, which is over anyway.
type Goaway struct {
	NewSessionURI string  // empty: the current one; always empty if a client sends it
	Timeout       uint64  // milliseconds until the sender closes the session or resets the stream; 0: unspecified
	RequestID     *uint64 // on the control stream only: the smallest request of the peer that was not processed
}

// Type implements Message.
func (*Goaway) Type() MessageType { return MessageGoaway }

func (m *Goaway) encode(e *encoder) {
	e.uri(m.NewSessionURI)
	e.varint(m.Timeout)
	if m.RequestID != nil {
		e.varint(*m.RequestID)
	}
}

func (m *Goaway) decode(d *decoder) {
	m.NewSessionURI = d.uri()
	m.Timeout = d.varint()
	if len(d.b) > 0 {
		id := d.varint()
		m.RequestID = &id
	}
}

func (e *encoder) uri(s string) { e.lengthPrefixed(s, MaxURILen, "URI") }

func (d *decoder) uri() string { return string(d.lengthPrefixed(MaxURILen, "URI")) }
