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

// objectEnd returns the stream offset after a payload. QUIC streams are shorter than 2^62 bytes, so a length that does
// not fit into an int64 is a violation.
func objectEnd(payloadStart int64, payloadLength uint64) (int64, error) {
	if payloadLength > uint64(math.MaxInt64-payloadStart) {
		return 0, violation("object payload length %d exceeds the stream", payloadLength)
	}
	return payloadStart + int64(payloadLength), nil
}

// ObjectStatus is what an object without a payload stands for (draft §11.2.1.1).
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

// PriorGroupIDGap returns the number of groups before the object's group that do not exist, and false if the object
// does not have the property (draft §12.8).
func (p Properties) PriorGroupIDGap() (groups uint64, ok bool) {
	pair, ok := p.Lookup(PropertyPriorGroupIDGap)
	return pair.Value, ok
}

// PriorObjectIDGap returns the number of objects before this one that do not exist in its group, and false if the
// object does not have the property (draft §12.9).
func (p Properties) PriorObjectIDGap() (objects uint64, ok bool) {
	pair, ok := p.Lookup(PropertyPriorObjectIDGap)
	return pair.Value, ok
}

// CheckObject validates p as the Object Properties of the object at l. It returns a ProtocolError where the draft
// closes the session (§1.4.3), and a MalformedTrackError where the track is malformed (§2.5.1, §12.7–§12.9).
func (p Properties) CheckObject(l Location) error {
	if len(p) == 0 {
		return nil
	}
	c := objectChecker{location: l}
	err := p.parse(func(pair KeyValuePair) error {
		if pair.Type != PropertyImmutable {
			return c.check(pair)
		}
		if c.immutable++; c.immutable > 1 {
			return malformed("object %s has several immutable properties", l)
		}
		return checkImmutable(pair.Bytes, c.check)
	})
	if err == ErrIncomplete {
		return malformed("properties of object %s end within a key-value-pair", l)
	}
	return err
}

// objectChecker counts the properties that an object may have only once.
type objectChecker struct {
	location                         Location
	immutable, groupGaps, objectGaps int
}

func (c *objectChecker) check(pair KeyValuePair) error {
	switch {
	case isMandatory(pair.Type):
		return malformed("object %s has the mandatory track property %#x", c.location, pair.Type)
	case pair.Type == PropertyPriorGroupIDGap:
		c.groupGaps++
		return c.gap("group", c.groupGaps, pair.Value, c.location.Group)
	case pair.Type == PropertyPriorObjectIDGap:
		c.objectGaps++
		return c.gap("object", c.objectGaps, pair.Value, c.location.Object)
	}
	return nil
}

func (c *objectChecker) gap(what string, instances int, gap, id uint64) error {
	if instances > 1 {
		return malformed("object %s has several prior %s id gaps", c.location, what)
	}
	if gap > id {
		return malformed("object %s has a prior %s id gap of %d", c.location, what, gap)
	}
	return nil
}
