package moqt

import (
	"encoding/binary"
	"fmt"
)

// maxPayloadLen is the largest payload of a control message, in bytes: its length field has 16 bits (draft §10).
const maxPayloadLen = 1<<16 - 1

// MessageType identifies a control message (draft §10).
type MessageType uint64

// Control message types.
const (
	MessageRequestUpdate      MessageType = 0x2
	MessageSubscribe          MessageType = 0x3
	MessageSubscribeOK        MessageType = 0x4
	MessageRequestError       MessageType = 0x5
	MessagePublishNamespace   MessageType = 0x6
	MessageRequestOK          MessageType = 0x7
	MessageNamespace          MessageType = 0x8
	MessageNamespaceWithdrawn MessageType = 0x9 // PUBLISH_NAMESPACE_DONE, of draft-16
	MessageUnsubscribe        MessageType = 0xa // see Unsubscribe
	MessagePublishDone        MessageType = 0xb
	MessageNamespaceRevoked   MessageType = 0xc // PUBLISH_NAMESPACE_CANCEL, of draft-16
	MessageTrackStatus        MessageType = 0xd
	MessageNamespaceDone      MessageType = 0xe
	MessagePublishBlocked     MessageType = 0xf // PUBLISH_SKIPPED since draft-19
	MessageGoaway             MessageType = 0x10
	MessageMaxRequestID       MessageType = 0x15 // of draft-16
	MessageFetch              MessageType = 0x16
	MessageFetchCancel        MessageType = 0x17 // of draft-16
	MessageFetchOK            MessageType = 0x18
	MessageRequestsBlocked    MessageType = 0x1a // of draft-16
	MessagePublish            MessageType = 0x1d
	MessagePublishOK          MessageType = 0x1e // never sent; see RequestOK
	MessageStateNotify        MessageType = 0x22 // PUBLISH_STATE_NOTIFY; since draft-20
	MessageSubscribeNamespace MessageType = 0x50
	MessageSubscribeTracks    MessageType = 0x51
	MessageSetup              MessageType = 0x2f00
)

// String returns the name of the message in the newest version that has it, or the number in hexadecimal.
func (t MessageType) String() string {
	for i := len(wires) - 1; i >= 0; i-- {
		if wires[i] == nil {
			continue
		}
		if f, ok := wires[i].messages[t]; ok {
			return f.name
		}
	}
	return fmt.Sprintf("message %#x", uint64(t))
}

// Reference says to which request a message belongs. Only draft-16 needs it, as its control messages share one stream.
// Other versions have a stream for each request.
type Reference struct {
	// RequestID names the request; in a response to a REQUEST_UPDATE, the update.
	RequestID uint64
	// Answers is MessagePublish for the response to a PUBLISH, whose type is PUBLISH_OK.
	Answers MessageType
}

// Message is a control message: a pointer to one of the structs that are named after the messages.
type Message interface {
	// Type returns the message type that is sent.
	Type() MessageType
}

// Parts are fields that many messages have.
type Parts struct {
	RequestID  *uint64 // nil in messages that are no requests
	Parameters *Parameters
	Track      FullTrackName // empty if the message has none, and without a name if that has none
}

// PartsOf returns the parts of a request or a SUBSCRIBE_OK. Other messages have none.
func PartsOf(m Message) Parts {
	switch m := m.(type) {
	case *Subscribe:
		return Parts{&m.RequestID, &m.Parameters, m.Track}
	case *SubscribeOK:
		return Parts{Parameters: &m.Parameters}
	case *Publish:
		return Parts{&m.RequestID, &m.Parameters, m.Track}
	case *Fetch:
		return Parts{&m.RequestID, &m.Parameters, m.Track}
	case *TrackStatus:
		return Parts{&m.RequestID, &m.Parameters, m.Track}
	case *PublishNamespace:
		return Parts{&m.RequestID, &m.Parameters, FullTrackName{Namespace: m.Namespace}}
	case *SubscribeNamespace:
		return Parts{&m.RequestID, &m.Parameters, FullTrackName{Namespace: m.Prefix}}
	case *SubscribeTracks:
		return Parts{&m.RequestID, &m.Parameters, FullTrackName{Namespace: m.Prefix}}
	case *RequestUpdate:
		return Parts{RequestID: &m.RequestID, Parameters: &m.Parameters}
	}
	return Parts{}
}

// messageFormat describes a message of one version: its layout, and where it may appear.
type messageFormat struct {
	name  string
	read  func(*coder) Message
	write func(*coder, Message)
	opens streamSet // the kind of request stream that it opens, or 0
	// The streams on which their opener, and the other endpoint, may send it later.
	fromRequester, fromResponder streamSet
}

// layout returns a messageFormat with the method that writes and reads the payload of a message. A copy of the message
// is written, which the method may change.
func layout[M any, P interface {
	*M
	Message
}](name string, fields func(P, *coder)) messageFormat {
	return messageFormat{
		name: name,
		read: func(c *coder) Message {
			m := P(new(M))
			fields(m, c)
			return m
		},
		write: func(c *coder, m Message) {
			sent := *m.(P)
			fields(&sent, c)
		},
	}
}

// parseMessage decodes the payload of a control message and checks everything that does not depend on where it was
// received; Context.Check does the rest. The result does not refer to payload. Parameters are as before draft 17 if old
// is true: see Reader. Errors are ProtocolErrors, or a MalformedTrackError if the Track Properties make the track
// malformed. The reference is valid unless the error is a ProtocolError.
func parseMessage(v Version, typ MessageType, payload []byte, old bool) (Message, Reference, error) {
	w := v.wire()
	f, ok := w.format(typ)
	if !ok {
		return nil, Reference{}, violation("unknown message type %#x", uint64(typ))
	}
	c := coder{wire: w, b: payload, oldParameters: old}
	m := f.read(&c)
	if len(c.b) > 0 {
		c.fail(violation("%d bytes after the last field", len(c.b)))
	}
	if c.err != nil {
		return nil, c.ref, fmt.Errorf("%s: %w", f.name, c.err)
	}
	return m, c.ref, nil
}

// AppendMessage appends m with its type and length. If the receiver would have to close the session over m, for example
// because a name is too long or a parameter not allowed, it returns b unchanged and an error.
func AppendMessage(b []byte, v Version, m Message) ([]byte, error) {
	return AppendMessageTo(b, v, Reference{}, m)
}

// AppendMessageTo is like AppendMessage, for a message that belongs to a request.
func AppendMessageTo(b []byte, v Version, r Reference, m Message) ([]byte, error) {
	w := v.wire()
	f, ok := w.messages[m.Type()]
	if !ok {
		return b, fmt.Errorf("%s does not exist in %s", m.Type(), v)
	}
	c := coder{wire: w, writes: true, b: w.varint().append(b, uint64(w.code(r, m))), ref: r}
	start := len(c.b) + 2
	c.b = append(c.b, 0, 0)
	f.write(&c, m)
	n := len(c.b) - start
	if n > maxPayloadLen {
		c.fail(fmt.Errorf("payload of %d bytes, at most %d are allowed", n, maxPayloadLen))
	}
	if c.err != nil {
		// The error is not wrapped: a ProtocolError in it would look like a violation by the peer.
		return b, fmt.Errorf("encode %s: %v", f.name, c.err)
	}
	binary.BigEndian.PutUint16(c.b[start-2:], uint16(n))
	return c.b, nil
}

// streamSet is a set of streams that carry control messages, each named after the message that opens it.
type streamSet uint16

const (
	onControl streamSet = 1 << iota
	onSubscribe
	onPublish
	onFetch
	onTrackStatus
	onPublishNamespace
	onSubscribeNamespace
	onSubscribeTracks

	onNamespaces = onPublishNamespace | onSubscribeNamespace | onSubscribeTracks
	onUpdatable  = onSubscribe | onPublish | onFetch | onNamespaces // changed by REQUEST_UPDATE (draft §10.9)
	onRequest    = onUpdatable | onTrackStatus
)

func (f messageFormat) opening(s streamSet) messageFormat {
	f.opens = s
	return f
}

func (f messageFormat) requester(s streamSet) messageFormat {
	f.fromRequester = s
	return f
}

func (f messageFormat) responder(s streamSet) messageFormat {
	f.fromResponder = s
	return f
}

// streams returns the stream that a message of format f opens, or 0.
func (f messageFormat) streams() streamSet {
	if f.opens != 0 {
		return f.opens
	}
	return f.fromRequester & onControl
}
