package session

import (
	"errors"
	"fmt"

	"sluice/moqt"
	"sluice/transport"
)

var (
	// ErrGoingAway says that the peer sent GOAWAY: requests have to go to a new session (draft §3.6).
	ErrGoingAway = errors.New("the peer is going away: use a new session")
	// ErrReserved says that a namespace is not the application's to use (draft §3.2.1, §3.2.2).
	ErrReserved = errors.New("namespaces that start with \".\" or \".session\" are reserved")
	// ErrDuplicate says that there is a subscription to the track already (draft §5.1).
	ErrDuplicate = errors.New("there is a subscription to the track already")
	// ErrSuperseded ends a subscription whose track the peer published at the same time: use that one (draft §5.1).
	ErrSuperseded = errors.New("the peer published the track itself")
	// ErrAnswered says that a request or an update has its response already.
	ErrAnswered = errors.New("it was answered before")
	// ErrUnanswered says that a request has to be answered first.
	ErrUnanswered = errors.New("the request was not answered yet")
	// ErrFinished ends a request that has run its course.
	ErrFinished = errors.New("the request is finished")
	// ErrNoResponse says that the peer ended a request, or a subscription, without the message that is due.
	ErrNoResponse = errors.New("the peer closed the stream too early")
	// ErrTimeout says that the peer did not respond to a request, or to an update of it, in time.
	ErrTimeout = errors.New("the peer did not respond in time")
)

// DoneError ends a subscription: its publisher sent PUBLISH_DONE.
type DoneError struct{ moqt.PublishDone }

func (e *DoneError) Error() string {
	if e.Reason == "" {
		return "subscription ended: " + e.Status.String()
	}
	return fmt.Sprintf("subscription ended: %s: %s", e.Status, e.Reason)
}

// violation is what the peer did against the rules, where the draft has no more specific code.
func violation(format string, args ...any) error {
	return &moqt.ProtocolError{Code: moqt.SessionProtocolViolation, Reason: fmt.Sprintf(format, args...)}
}

// refuse is a response to a request. Codes other than those of resource limits say that a retry is pointless.
func refuse(code moqt.RequestErrorCode, format string, args ...any) *moqt.RequestError {
	return &moqt.RequestError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// asError avoids an error that is not nil and holds nil.
func asError(e *moqt.RequestError) error {
	if e == nil {
		return nil
	}
	return e
}

// closeCode is the code and the reason with which a session ends because of err.
func closeCode(err error) (moqt.SessionErrorCode, string) {
	if p, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		return p.Code, p.Reason
	}
	return moqt.SessionInternalError, err.Error()
}

// isClean reports whether a session ended without an error on either side.
func isClean(err error) bool {
	if p, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		return p.Code == moqt.SessionNoError
	}
	e, ok := errors.AsType[*transport.SessionError](err)
	return ok && e.Cause == nil && e.Code == uint64(moqt.SessionNoError)
}
