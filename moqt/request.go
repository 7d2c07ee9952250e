package moqt

import (
	"fmt"
	"time"
)

// RequestUpdate changes the parameters of a request. Absent parameters stay as they are (draft §10.9).
type RequestUpdate struct {
	RequestID  uint64 // of the update itself
	Parameters Parameters
}

// Type implements Message.
func (*RequestUpdate) Type() MessageType { return MessageRequestUpdate }

func (m *RequestUpdate) fields(c *coder) {
	c.varint(&m.RequestID)
	c.request()
	m.Parameters.fields(c, inUpdate)
}

// RequestOK accepts a PUBLISH, REQUEST_UPDATE, TRACK_STATUS, SUBSCRIBE_NAMESPACE, SUBSCRIBE_TRACKS or PUBLISH_NAMESPACE
// (draft §10.5). The contents that are allowed depend on the message that it answers; see Context.
//
// The table of message types in draft §10 still lists PUBLISH_OK as 0x1E, although it has the format of REQUEST_OK,
// whose type is 0x7. This package sends 0x7, and accepts both in draft-18.
type RequestOK struct {
	Parameters Parameters
	Properties Properties // in TRACK_STATUS_OK only
}

// Type implements Message.
func (*RequestOK) Type() MessageType { return MessageRequestOK }

func (m *RequestOK) fields(c *coder) {
	c.request()
	m.Parameters.fields(c, inRequestOK)
	if !c.wire.references { // draft-16 has none here
		c.properties(&m.Properties)
	}
}

// RequestError refuses a request (draft §10.6).
type RequestError struct {
	Code          RequestErrorCode
	RetryInterval uint64    // milliseconds plus 1; 0 if the request should not be repeated
	Reason        string    // truncated to MaxReasonLen when it is sent
	Redirect      *Redirect // with RequestRedirect only
}

// Redirect is where to repeat a request (draft §10.6.1). Peers built on the Rust crate moq-transport 0.17 do not know
// it and close the session.
type Redirect struct {
	URI   string        // empty: the URI of this session
	Track FullTrackName // empty: the requested track or namespace. Name is empty for namespaces.
}

// Type implements Message.
func (*RequestError) Type() MessageType { return MessageRequestError }

// Error implements error, so that functions can return a refused request as their error.
func (m *RequestError) Error() string {
	if m.Reason == "" {
		return "request refused: " + m.Code.String()
	}
	return "request refused: " + m.Code.String() + ": " + m.Reason
}

// SetRetry sets RetryInterval to a time, rounded up to milliseconds, after which the request may be repeated.
func (m *RequestError) SetRetry(after time.Duration) {
	const ms = uint64(time.Millisecond)
	m.RetryInterval = (uint64(max(after, 0))+ms-1)/ms + 1
}

func (m *RequestError) fields(c *coder) {
	if c.writes {
		if m.Code == RequestRedirect && c.wire.references { // draft-16 has none
			m.Redirect = nil
		}
		m.Code = substitute(c.wire.former.request, m.Code)
		if (m.Redirect != nil) != (m.Code == RequestRedirect) {
			c.fail(fmt.Errorf("a redirect belongs to the code REDIRECT, not to %s", m.Code))
		}
	}
	c.request()
	c.varints((*uint64)(&m.Code), &m.RetryInterval)
	c.reason(&m.Reason)
	if !c.writes && m.Code == RequestRedirect && !c.wire.references {
		m.Redirect = new(Redirect)
	}
	if m.Redirect != nil {
		c.text(&m.Redirect.URI, MaxURILen, "URI")
		m.Redirect.Track.fields(c)
	}
}

// MaxReasonLen is the largest Reason Phrase, in bytes (draft §1.4.4).
const MaxReasonLen = 1024
