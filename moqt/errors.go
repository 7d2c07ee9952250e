package moqt

import (
	"errors"
	"fmt"
)

// ErrIncomplete reports that the bytes end before the structure does. On a stream that is still open it means
// "read more and parse again"; at the end of a stream the structure is truncated.
var ErrIncomplete = errors.New("more bytes needed")

// ProtocolError is a violation for which the draft demands that the session be closed with Code.
type ProtocolError struct {
	Code   SessionErrorCode
	Reason string // what the peer did wrong, fit for the reason phrase of the close
}

// Error implements error.
func (e *ProtocolError) Error() string {
	if e.Reason == "" {
		return e.Code.String()
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Reason)
}

// MalformedTrackError says that a track breaks the rules of draft §2.4.2: the receiver cancels its subscriptions
// and fetches of the track and keeps the session.
type MalformedTrackError struct {
	Reason string
}

// Error implements error.
func (e *MalformedTrackError) Error() string { return "malformed track: " + e.Reason }

// violation returns a ProtocolError with PROTOCOL_VIOLATION, the code for almost everything that is malformed.
func violation(format string, args ...any) error {
	return &ProtocolError{SessionProtocolViolation, fmt.Sprintf(format, args...)}
}

// breach turns a failed validation into the ProtocolError for a peer that sent what was validated; nil stays nil.
func breach(err error) error {
	if err == nil {
		return nil
	}
	return &ProtocolError{SessionProtocolViolation, err.Error()}
}

func malformed(format string, args ...any) error {
	return &MalformedTrackError{fmt.Sprintf(format, args...)}
}
