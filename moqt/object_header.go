package moqt

import (
	"errors"
	"math"
)

// MaxObjectPropertiesLen is the largest Properties Length that is accepted, in bytes. The draft sets no limit, but
// properties have to be looked at in one piece; this leaves room for several values of maximal length.
const MaxObjectPropertiesLen = 1 << 18

// ErrPropertiesTooLong reports that MaxObjectPropertiesLen is exceeded. It is no violation of the draft: stop the
// stream with EXCESSIVE_LOAD.
var ErrPropertiesTooLong = errors.New("object properties are too long")

// ObjectHeader is what precedes the payload of an object on a subgroup stream (draft §11.4.2).
type ObjectHeader struct {
	ObjectID      uint64
	Status        ObjectStatus // other than StatusNormal only if Properties and payload are empty
	Properties    Properties
	PayloadLength uint64 // bytes
}

// objectEnd returns the stream offset after a payload. QUIC streams end before 2^62, so what does not fit an int64
// cannot be true.
func objectEnd(payloadStart int64, payloadLength uint64) (int64, error) {
	if payloadLength > uint64(math.MaxInt64-payloadStart) {
		return 0, violation("object payload length %d exceeds the stream", payloadLength)
	}
	return payloadStart + int64(payloadLength), nil
}
