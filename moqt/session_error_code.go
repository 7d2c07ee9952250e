package moqt

// SessionErrorCode says why a session was closed (draft §3.5).
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
	SessionInvalidPath             SessionErrorCode = 0x8
	SessionMalformedPath           SessionErrorCode = 0x9
	SessionGoawayTimeout           SessionErrorCode = 0x10
	SessionControlMessageTimeout   SessionErrorCode = 0x11
	SessionDataStreamTimeout       SessionErrorCode = 0x12
	SessionAuthTokenCacheOverflow  SessionErrorCode = 0x13
	SessionDuplicateAuthTokenAlias SessionErrorCode = 0x14
	SessionVersionNegotiation      SessionErrorCode = 0x15
	SessionMalformedAuthToken      SessionErrorCode = 0x16
	SessionUnknownAuthTokenAlias   SessionErrorCode = 0x17
	SessionExpiredAuthToken        SessionErrorCode = 0x18
	SessionInvalidAuthority        SessionErrorCode = 0x19
	SessionMalformedAuthority      SessionErrorCode = 0x1a
)

var sessionErrorNames = map[SessionErrorCode]string{
	SessionNoError:                 "NO_ERROR",
	SessionInternalError:           "INTERNAL_ERROR",
	SessionUnauthorized:            "UNAUTHORIZED",
	SessionProtocolViolation:       "PROTOCOL_VIOLATION",
	SessionInvalidRequestID:        "INVALID_REQUEST_ID",
	SessionDuplicateTrackAlias:     "DUPLICATE_TRACK_ALIAS",
	SessionKeyValueFormattingError: "KEY_VALUE_FORMATTING_ERROR",
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
}

// String returns the name in the registry, or the number in hexadecimal.
func (c SessionErrorCode) String() string { return codeName(sessionErrorNames, c) }

// Effective returns c, or INTERNAL_ERROR if c is unknown: receivers treat the two alike (draft §14).
func (c SessionErrorCode) Effective() SessionErrorCode {
	return effectiveCode(sessionErrorNames, c, SessionInternalError)
}
