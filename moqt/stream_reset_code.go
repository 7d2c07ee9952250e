package moqt

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

// Effective returns c, or INTERNAL_ERROR if c is unknown: receivers treat the two alike (draft §14).
func (c StreamResetCode) Effective() StreamResetCode {
	return effectiveCode(streamResetNames, c, ResetInternalError)
}
