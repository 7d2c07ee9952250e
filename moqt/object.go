package moqt

import (
	"errors"
	"fmt"
	"math"
)

// MaxObjectPropertiesLen is the largest Properties Length that is accepted, in bytes. The draft sets no limit, but
// properties are parsed in one piece, which takes memory. Several values of the largest size fit.
const MaxObjectPropertiesLen = 1 << 18

// ErrPropertiesTooLong reports Object Properties of more than MaxObjectPropertiesLen bytes. They do not violate the
// draft: the receiver stops the stream with EXCESSIVE_LOAD and keeps the session.
var ErrPropertiesTooLong = errors.New("object properties are too long")

// ObjectHeader precedes the payload of an object on a subgroup stream (draft §11.4.2).
type ObjectHeader struct {
	ObjectID      uint64
	Status        ObjectStatus // other than StatusNormal only if Properties and payload are empty
	Properties    Properties
	PayloadLength uint64 // bytes
}

// check validates status and properties of an object in group.
func (h *ObjectHeader) check(group uint64) error {
	if err := h.Status.validate(h.Properties); err != nil {
		return breach(err)
	}
	return h.Properties.CheckObject(Location{group, h.ObjectID})
}

// validate returns an error if a receiver would refuse h.
func (h *ObjectHeader) validate(hasProperties bool) error {
	switch {
	case !hasProperties && len(h.Properties) > 0:
		return errNoProperties
	case len(h.Properties) > MaxObjectPropertiesLen:
		return ErrPropertiesTooLong
	case h.Status != StatusNormal && h.PayloadLength > 0:
		return errStatusPayload
	}
	return h.Status.validate(h.Properties)
}

// objectEnd returns the stream offset after a payload. QUIC streams are shorter than 2^62 bytes, so a length that does
// not fit into an int64 is a violation.
func objectEnd(payloadStart int64, payloadLength uint64) (int64, error) {
	if payloadLength > uint64(math.MaxInt64-payloadStart) {
		return 0, violation("object payload length %d exceeds the stream", payloadLength)
	}
	return payloadStart + int64(payloadLength), nil
}

// ObjectStatus is the meaning of an object without a payload (draft §11.2.1.1).
type ObjectStatus uint64

// Object statuses.
const (
	StatusNormal     ObjectStatus = 0x0 // an object
	StatusEndOfGroup ObjectStatus = 0x3 // its group has no object with this or a larger id
	StatusEndOfTrack ObjectStatus = 0x4 // its track has no object at this or a larger location
)

// String names the status.
func (s ObjectStatus) String() string {
	switch s {
	case StatusNormal:
		return "normal"
	case StatusEndOfGroup:
		return "end of group"
	case StatusEndOfTrack:
		return "end of track"
	}
	return fmt.Sprintf("object status %#x", uint64(s))
}

// validate returns an error if no object has status s and properties p (draft §11.2.1.1, §11.2.1.2).
func (s ObjectStatus) validate(p Properties) error {
	switch s {
	case StatusNormal:
		return nil
	case StatusEndOfGroup, StatusEndOfTrack:
		if len(p) > 0 {
			return fmt.Errorf("object with status %q has properties", s)
		}
		return nil
	}
	return fmt.Errorf("unknown object status %#x", uint64(s))
}
