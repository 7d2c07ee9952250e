package session

import (
	"errors"
	"fmt"

	"sluice/moqt"
	"sluice/transport"
)

var (
	// ErrGoingAway reports that the peer sent GOAWAY: requests have to go to a new session (draft §3.6).
	ErrGoingAway = errors.New("the peer is going away: use a new session")
	// ErrReserved reports a namespace that applications must not use (draft §3.2.1, §3.2.2).
	ErrReserved = errors.New("namespaces that start with \".\" or \".session\" are reserved")
	// ErrDuplicate reports that there is a subscription to the track already (draft §5.1).
	ErrDuplicate = errors.New("there is a subscription to the track already")
	// ErrSuperseded ends a subscription to a track that the peer published at the same time, and whose PUBLISH was
	// accepted (draft §5.1).
	ErrSuperseded = errors.New("the peer published the track itself")
	// ErrAnswered reports that a request or an update already has a response.
	ErrAnswered = errors.New("the request or update has already been answered")
	// ErrUnanswered reports that a request has to be answered first.
	ErrUnanswered = errors.New("the request has not been answered yet")
	// ErrFinished ends a request that is complete.
	ErrFinished = errors.New("the request is finished")
	// ErrNoResponse reports that the peer closed the stream of a request without its response, or without PUBLISH_DONE.
	ErrNoResponse = errors.New("the peer closed the stream too early")
	// ErrTimeout reports that the peer did not respond to a request, or to an update of it, in time.
	ErrTimeout = errors.New("the peer did not respond in time")
)

// errOneControlStream refuses calls that draft-16 cannot express.
var errOneControlStream = errors.New("draft-16 cannot change this request")

// DoneError ends a subscription: its publisher sent PUBLISH_DONE.
type DoneError struct{ moqt.PublishDone }

func (e *DoneError) Error() string {
	if e.Reason == "" {
		return "subscription ended: " + e.Status.String()
	}
	return fmt.Sprintf("subscription ended: %s: %s", e.Status, e.Reason)
}

// closes returns an error that closes the session with a code.
func closes(code moqt.SessionErrorCode, format string, args ...any) error {
	return &moqt.ProtocolError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// violation returns the error for a breach of the rules that has no code of its own in the draft.
func violation(format string, args ...any) error {
	return closes(moqt.SessionProtocolViolation, format, args...)
}

// refuse returns the response that refuses a request, without a time to retry.
func refuse(code moqt.RequestErrorCode, format string, args ...any) *moqt.RequestError {
	return &moqt.RequestError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// asError returns e as an error, which is nil if e is nil.
func asError(e *moqt.RequestError) error {
	if e == nil {
		return nil
	}
	return e
}

// closeCode returns the code and the reason with which err closes a session.
func closeCode(err error) (moqt.SessionErrorCode, string) {
	if p, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		return p.Code, p.Reason
	}
	return moqt.SessionInternalError, err.Error()
}

// isEnd reports whether err is a consequence of the end of the session.
func isEnd(err error) bool {
	_, ended := errors.AsType[*transport.SessionError](err)
	return ended
}

// isClean reports whether a session ended without an error on either side.
func isClean(err error) bool {
	if p, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		return p.Code == moqt.SessionNoError
	}
	e, ok := errors.AsType[*transport.SessionError](err)
	return ok && e.Cause == nil && e.Code == uint64(moqt.SessionNoError)
}
