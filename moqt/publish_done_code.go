package moqt

// PublishDoneCode says why a subscription ended (draft §10.11).
type PublishDoneCode uint64

// PUBLISH_DONE codes (draft §15.10.3).
const (
	DoneInternalError     PublishDoneCode = 0x0
	DoneUnauthorized      PublishDoneCode = 0x1
	DoneTrackEnded        PublishDoneCode = 0x2
	DoneSubscriptionEnded PublishDoneCode = 0x3
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

// Effective returns c, or INTERNAL_ERROR if c is unknown: receivers treat the two alike (draft §14).
func (c PublishDoneCode) Effective() PublishDoneCode {
	return effectiveCode(publishDoneNames, c, DoneInternalError)
}
