package moqt

// RequestErrorCode says why a request failed (draft §10.6.2).
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
	RequestDuplicateSubscription   RequestErrorCode = 0x19
	RequestUninterested            RequestErrorCode = 0x20
	RequestPrefixOverlap           RequestErrorCode = 0x30
	RequestNamespaceTooLarge       RequestErrorCode = 0x31
	RequestInvalidJoiningRequestID RequestErrorCode = 0x32
	RequestUnsupportedExtension    RequestErrorCode = 0x33
	RequestRedirect                RequestErrorCode = 0x34
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
}

// String returns the name in the registry, or the number in hexadecimal.
func (c RequestErrorCode) String() string { return codeName(requestErrorNames, c) }

// Effective returns c, or INTERNAL_ERROR if c is unknown: receivers treat the two alike (draft §14).
func (c RequestErrorCode) Effective() RequestErrorCode {
	return effectiveCode(requestErrorNames, c, RequestInternalError)
}
