package moqt

import (
	"fmt"
	"time"
)

// RequestError refuses a request (draft §10.6).
type RequestError struct {
	Code          RequestErrorCode
	RetryInterval uint64    // milliseconds plus 1; 0 if the request should not be repeated
	Reason        string    // cut at MaxReasonLen when it is sent
	Redirect      *Redirect // with RequestRedirect only
}

// Redirect says where to repeat a request (draft §10.6.1). Peers built on the Rust crate moq-transport 0.17 do not
// know it and close the session.
type Redirect struct {
	URI   string        // empty: the URI of this session
	Track FullTrackName // no fields and no name: what was requested. Namespace requests have no name.
}

// Type implements Message.
func (*RequestError) Type() MessageType { return MessageRequestError }

// Error implements error, so that a refused request can be returned as one.
func (m *RequestError) Error() string {
	if m.Reason == "" {
		return "request refused: " + m.Code.String()
	}
	return "request refused: " + m.Code.String() + ": " + m.Reason
}

// Retry returns after what time the request may be repeated, and false if it should not be.
func (m *RequestError) Retry() (after time.Duration, ok bool) {
	if m.RetryInterval == 0 {
		return 0, false
	}
	return Milliseconds(m.RetryInterval - 1), true
}

// SetRetry fills RetryInterval: the request may be repeated after that time, rounded up to milliseconds.
func (m *RequestError) SetRetry(after time.Duration) {
	const ms = uint64(time.Millisecond)
	m.RetryInterval = (uint64(max(after, 0))+ms-1)/ms + 1
}

func (m *RequestError) encode(e *encoder) {
	e.varint(uint64(m.Code))
	e.varint(m.RetryInterval)
	e.reason(m.Reason)
	if (m.Redirect != nil) != (m.Code == RequestRedirect) {
		e.fail(fmt.Errorf("a redirect belongs to the code REDIRECT, not to %s", m.Code))
	} else if m.Redirect != nil {
		e.uri(m.Redirect.URI)
		e.fullTrackName(m.Redirect.Track)
	}
}

func (m *RequestError) decode(d *decoder) {
	m.Code = RequestErrorCode(d.varint())
	m.RetryInterval = d.varint()
	m.Reason = d.reason()
	if m.Code == RequestRedirect {
		m.Redirect = &Redirect{URI: d.uri(), Track: d.fullTrackName()}
	}
}
