package transport

import (
	"errors"
	"fmt"
)

var (
	// ErrStreamLimit is returned when the peer allows no further stream for now.
	ErrStreamLimit = errors.New("the peer's stream limit is reached")
	// ErrDatagramTooLarge is returned when a datagram is longer than a packet on the path can hold.
	ErrDatagramTooLarge = errors.New("the datagram is too large for the path")
	// ErrListenerClosed is returned by Accept after Close.
	ErrListenerClosed = errors.New("the listener is closed")
)

// StreamError is why a stream fails: it was reset, or the peer asked to stop sending.
type StreamError struct {
	Code   uint64 // the application's
	Remote bool   // the peer did it
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("stream canceled %s with code %#x", by(e.Remote), e.Code)
}

// SessionError is why a session has ended.
type SessionError struct {
	Code   uint64 // the application's; 0 if Cause is set
	Remote bool   // the peer did it
	Reason string
	Cause  error // why the transport broke (a timeout, a protocol violation); nil if an endpoint closed the session
}

func (e *SessionError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("session lost: %v", e.Cause)
	}
	if e.Reason == "" {
		return fmt.Sprintf("session closed %s with code %#x", by(e.Remote), e.Code)
	}
	return fmt.Sprintf("session closed %s with code %#x: %s", by(e.Remote), e.Code, e.Reason)
}

func (e *SessionError) Unwrap() error { return e.Cause }

func by(remote bool) string {
	if remote {
		return "by the peer"
	}
	return "locally"
}
