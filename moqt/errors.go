package moqt

import (
	"errors"
	"fmt"
)

// ErrIncomplete reports that the bytes end before the structure does. On a stream that is still open the caller reads
// more and parses again. At the end of a stream the structure is truncated.
var ErrIncomplete = errors.New("more bytes needed")

// ProtocolError is a violation after which the session must be closed with Code.
type ProtocolError struct {
	Code   SessionErrorCode
	Reason string // what the peer did wrong; also the reason phrase that the peer gets
}

// Error implements error.
func (e *ProtocolError) Error() string {
	if e.Reason == "" {
		return e.Code.String()
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Reason)
}

// MalformedTrackError reports that a track breaks the rules of draft §2.4.2. The receiver cancels its subscriptions
// and fetches of the track, and keeps the session.
type MalformedTrackError struct {
	Reason string
}

// Error implements error.
func (e *MalformedTrackError) Error() string { return "malformed track: " + e.Reason }

// violation returns a ProtocolError with PROTOCOL_VIOLATION, the code for almost all malformed input.
func violation(format string, args ...any) error {
	return &ProtocolError{SessionProtocolViolation, fmt.Sprintf(format, args...)}
}

// breach turns err, the result of validating a peer's message, into a ProtocolError; nil stays nil.
func breach(err error) error {
	if err == nil {
		return nil
	}
	return &ProtocolError{SessionProtocolViolation, err.Error()}
}

func malformed(format string, args ...any) error {
	return &MalformedTrackError{fmt.Sprintf(format, args...)}
}

// codeName returns the name of a code, or the number in hexadecimal if it is unknown (from an extension, or grease).
func codeName[C ~uint64](names map[C]string, c C) string {
	if name, ok := names[c]; ok {
		return name
	}
	return fmt.Sprintf("%#x", uint64(c))
}

// SessionErrorCode is the reason why a session was closed (draft §3.5).
type SessionErrorCode uint64

// Session termination error codes (draft §15.10.1).
const (
	SessionNoError                 SessionErrorCode = 0x0
	SessionInternalError           SessionErrorCode = 0x1
	SessionUnauthorized            SessionErrorCode = 0x2
	SessionProtocolViolation       SessionErrorCode = 0x3
	SessionInvalidRequestID        SessionErrorCode = 0x4
	SessionDuplicateTrackAlias     SessionErrorCode = 0x5
	SessionKeyValueFormattingError SessionErrorCode = 0x6
	SessionTooManyRequests         SessionErrorCode = 0x7 // draft-16
	SessionInvalidPath             SessionErrorCode = 0x8
	SessionMalformedPath           SessionErrorCode = 0x9
	SessionGoawayTimeout           SessionErrorCode = 0x10
	SessionControlMessageTimeout   SessionErrorCode = 0x11
	SessionDataStreamTimeout       SessionErrorCode = 0x12
	SessionAuthTokenCacheOverflow  SessionErrorCode = 0x13
	SessionDuplicateAuthTokenAlias SessionErrorCode = 0x14
	SessionVersionNegotiation      SessionErrorCode = 0x15 // until draft-19
	SessionMalformedAuthToken      SessionErrorCode = 0x16
	SessionUnknownAuthTokenAlias   SessionErrorCode = 0x17
	SessionExpiredAuthToken        SessionErrorCode = 0x18
	SessionInvalidAuthority        SessionErrorCode = 0x19
	SessionMalformedAuthority      SessionErrorCode = 0x1a
	SessionTooManyRequestUpdates   SessionErrorCode = 0x1b // since draft-19
)

var sessionErrorNames = map[SessionErrorCode]string{
	SessionNoError:                 "NO_ERROR",
	SessionInternalError:           "INTERNAL_ERROR",
	SessionUnauthorized:            "UNAUTHORIZED",
	SessionProtocolViolation:       "PROTOCOL_VIOLATION",
	SessionInvalidRequestID:        "INVALID_REQUEST_ID",
	SessionDuplicateTrackAlias:     "DUPLICATE_TRACK_ALIAS",
	SessionKeyValueFormattingError: "KEY_VALUE_FORMATTING_ERROR",
	SessionTooManyRequests:         "TOO_MANY_REQUESTS",
	SessionInvalidPath:             "INVALID_PATH",
	SessionMalformedPath:           "MALFORMED_PATH",
	SessionGoawayTimeout:           "GOAWAY_TIMEOUT",
	SessionControlMessageTimeout:   "CONTROL_MESSAGE_TIMEOUT",
	SessionDataStreamTimeout:       "DATA_STREAM_TIMEOUT",
	SessionAuthTokenCacheOverflow:  "AUTH_TOKEN_CACHE_OVERFLOW",
	SessionDuplicateAuthTokenAlias: "DUPLICATE_AUTH_TOKEN_ALIAS",
	SessionVersionNegotiation:      "VERSION_NEGOTIATION_FAILED",
	SessionMalformedAuthToken:      "MALFORMED_AUTH_TOKEN",
	SessionUnknownAuthTokenAlias:   "UNKNOWN_AUTH_TOKEN_ALIAS",
	SessionExpiredAuthToken:        "EXPIRED_AUTH_TOKEN",
	SessionInvalidAuthority:        "INVALID_AUTHORITY",
	SessionMalformedAuthority:      "MALFORMED_AUTHORITY",
	SessionTooManyRequestUpdates:   "TOO_MANY_REQUEST_UPDATES",
}

// String returns the name in the registry, or the number in hexadecimal.
func (c SessionErrorCode) String() string { return codeName(sessionErrorNames, c) }

// RequestErrorCode is the reason why a request failed (draft §10.6.2).
type RequestErrorCode uint64

// REQUEST_ERROR codes (draft §15.10.2).
const (
	RequestInternalError           RequestErrorCode = 0x0
	RequestUnauthorized            RequestErrorCode = 0x1
	RequestTimeout                 RequestErrorCode = 0x2
	RequestNotSupported            RequestErrorCode = 0x3
	RequestMalformedAuthToken      RequestErrorCode = 0x4
	RequestExpiredAuthToken        RequestErrorCode = 0x5
	RequestGoingAway               RequestErrorCode = 0x6
	RequestExcessiveLoad           RequestErrorCode = 0x9
	RequestDoesNotExist            RequestErrorCode = 0x10
	RequestInvalidRange            RequestErrorCode = 0x11
	RequestMalformedTrack          RequestErrorCode = 0x12
	RequestDuplicateSubscription   RequestErrorCode = 0x19 // draft-18 only
	RequestUninterested            RequestErrorCode = 0x20
	RequestPrefixOverlap           RequestErrorCode = 0x30
	RequestNamespaceTooLarge       RequestErrorCode = 0x31
	RequestInvalidJoiningRequestID RequestErrorCode = 0x32 // until draft-19
	RequestUnsupportedExtension    RequestErrorCode = 0x33
	RequestRedirect                RequestErrorCode = 0x34
	RequestConflictingFilters      RequestErrorCode = 0x35 // since draft-19
	RequestInvalidFilter           RequestErrorCode = 0x36 // since draft-19
)

var requestErrorNames = map[RequestErrorCode]string{
	RequestInternalError:           "INTERNAL_ERROR",
	RequestUnauthorized:            "UNAUTHORIZED",
	RequestTimeout:                 "TIMEOUT",
	RequestNotSupported:            "NOT_SUPPORTED",
	RequestMalformedAuthToken:      "MALFORMED_AUTH_TOKEN",
	RequestExpiredAuthToken:        "EXPIRED_AUTH_TOKEN",
	RequestGoingAway:               "GOING_AWAY",
	RequestExcessiveLoad:           "EXCESSIVE_LOAD",
	RequestDoesNotExist:            "DOES_NOT_EXIST",
	RequestInvalidRange:            "INVALID_RANGE",
	RequestMalformedTrack:          "MALFORMED_TRACK",
	RequestDuplicateSubscription:   "DUPLICATE_SUBSCRIPTION",
	RequestUninterested:            "UNINTERESTED",
	RequestPrefixOverlap:           "PREFIX_OVERLAP",
	RequestNamespaceTooLarge:       "NAMESPACE_TOO_LARGE",
	RequestInvalidJoiningRequestID: "INVALID_JOINING_REQUEST_ID",
	RequestUnsupportedExtension:    "UNSUPPORTED_EXTENSION",
	RequestRedirect:                "REDIRECT",
	RequestConflictingFilters:      "CONFLICTING_FILTERS",
	RequestInvalidFilter:           "INVALID_FILTER",
}

// String returns the name in the registry, or the number in hexadecimal.
func (c RequestErrorCode) String() string { return codeName(requestErrorNames, c) }

// Effective returns c, or INTERNAL_ERROR if c is unknown: receivers treat the two alike (draft §14).
func (c RequestErrorCode) Effective() RequestErrorCode {
	if _, ok := requestErrorNames[c]; ok {
		return c
	}
	return RequestInternalError
}

// PublishDoneCode is the reason why a subscription ended (draft §10.11).
type PublishDoneCode uint64

// PUBLISH_DONE codes (draft §15.10.3).
const (
	DoneInternalError     PublishDoneCode = 0x0
	DoneUnauthorized      PublishDoneCode = 0x1
	DoneTrackEnded        PublishDoneCode = 0x2
	DoneSubscriptionEnded PublishDoneCode = 0x3 // until draft-19
	DoneGoingAway         PublishDoneCode = 0x4
	DoneTooFarBehind      PublishDoneCode = 0x5
	DoneExpired           PublishDoneCode = 0x6
	DoneUpdateFailed      PublishDoneCode = 0x8
	DoneExcessiveLoad     PublishDoneCode = 0x9
	DoneMalformedTrack    PublishDoneCode = 0x12
)

var publishDoneNames = map[PublishDoneCode]string{
	DoneInternalError:     "INTERNAL_ERROR",
	DoneUnauthorized:      "UNAUTHORIZED",
	DoneTrackEnded:        "TRACK_ENDED",
	DoneSubscriptionEnded: "SUBSCRIPTION_ENDED",
	DoneGoingAway:         "GOING_AWAY",
	DoneTooFarBehind:      "TOO_FAR_BEHIND",
	DoneExpired:           "EXPIRED",
	DoneUpdateFailed:      "UPDATE_FAILED",
	DoneExcessiveLoad:     "EXCESSIVE_LOAD",
	DoneMalformedTrack:    "MALFORMED_TRACK",
}

// String returns the name in the registry, or the number in hexadecimal.
func (c PublishDoneCode) String() string { return codeName(publishDoneNames, c) }

// formerCodes replace codes that a version does not have, but that a relay may want to send: it serves other versions.
type formerCodes struct {
	request map[RequestErrorCode]RequestErrorCode
	done    map[PublishDoneCode]PublishDoneCode
	// received are codes with another meaning in the version.
	received map[PublishDoneCode]PublishDoneCode
}

// substitute returns the code that stands for c: often c itself.
func substitute[C comparable](codes map[C]C, c C) C {
	if other, ok := codes[c]; ok {
		return other
	}
	return c
}

// StreamResetCode is the application error code of RESET_STREAM and STOP_SENDING (draft §3.3.3).
type StreamResetCode uint64

// Stream reset error codes (draft §15.10.4).
const (
	ResetInternalError       StreamResetCode = 0x0
	ResetCancelled           StreamResetCode = 0x1
	ResetDeliveryTimeout     StreamResetCode = 0x2
	ResetSessionClosed       StreamResetCode = 0x3
	ResetGoingAway           StreamResetCode = 0x4
	ResetTooFarBehind        StreamResetCode = 0x5
	ResetUnknownObjectStatus StreamResetCode = 0x6
	ResetExpiredAuthToken    StreamResetCode = 0x7
	ResetExcessiveLoad       StreamResetCode = 0x9
	ResetMalformedTrack      StreamResetCode = 0x12
)

var streamResetNames = map[StreamResetCode]string{
	ResetInternalError:       "INTERNAL_ERROR",
	ResetCancelled:           "CANCELLED",
	ResetDeliveryTimeout:     "DELIVERY_TIMEOUT",
	ResetSessionClosed:       "SESSION_CLOSED",
	ResetGoingAway:           "GOING_AWAY",
	ResetTooFarBehind:        "TOO_FAR_BEHIND",
	ResetUnknownObjectStatus: "UNKNOWN_OBJECT_STATUS",
	ResetExpiredAuthToken:    "EXPIRED_AUTH_TOKEN",
	ResetExcessiveLoad:       "EXCESSIVE_LOAD",
	ResetMalformedTrack:      "MALFORMED_TRACK",
}

// String returns the name in the registry, or the number in hexadecimal.
func (c StreamResetCode) String() string { return codeName(streamResetNames, c) }

// maxGreaseN is the n of the largest grease value that the draft lists, 0x3fffffffffffffde.
const maxGreaseN = (0x3fffffffffffffde - 0x9d) / 0x7f

// Grease returns the n-th reserved value, 0x7f*n + 0x9d (draft §14). Peers must tolerate it as a Setup Option,
// a Property, an error code of any registry and an Auth Token Type. Large n wrap around to small ones.
func Grease(n uint64) uint64 { return 0x7f*(n%(maxGreaseN+1)) + 0x9d }
