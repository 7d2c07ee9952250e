package moqt

import (
	"fmt"
	"iter"
)

// MaxValueLen is the longest value of a Key-Value-Pair, in bytes (draft §1.4.3).
const MaxValueLen = 1<<16 - 1

// KeyValuePair is a Setup Option or a Property (draft §1.4.3).
type KeyValuePair struct {
	Type  uint64
	Value uint64 // if Type is even
	Bytes []byte // if Type is odd, at most MaxValueLen bytes
}

func errValueTooLong(typ, size uint64) error {
	return fmt.Errorf("key-value-pair %#x of %d bytes, at most %d are allowed", typ, size, MaxValueLen)
}

// Property types (draft §15.7).
const (
	PropertyObjectDeliveryTimeout      uint64 = 0x02 // track; object since draft-19
	PropertyMaxCacheDuration           uint64 = 0x04 // track
	PropertySubgroupDeliveryTimeout    uint64 = 0x06 // track; object since draft-19
	PropertyImmutable                  uint64 = 0x0b // track, object
	PropertyDefaultPublisherPriority   uint64 = 0x0e // track
	PropertyDefaultPublisherGroupOrder uint64 = 0x22 // track
	PropertyDynamicGroups              uint64 = 0x30 // track
	PropertyPriorGroupIDGap            uint64 = 0x3c // object
	PropertyPriorObjectIDGap           uint64 = 0x3e // object
)

// Properties are Track or Object Properties (draft §2.5) as they are on the wire: Key-Value-Pairs without a length in
// front. They stay encoded because relays forward them byte by byte. Their numbers are vi64, also where a version
// writes them in another way: parsers and encoders of that version convert them. The zero value has no properties.
type Properties []byte

// NewProperties encodes pairs. Their order does not matter: it sorts them by type.
func NewProperties(pairs ...KeyValuePair) (Properties, error) {
	return vi64.appendPairs(nil, pairs)
}

// All iterates over the mutable list, where Immutable Properties are one pair; see Immutable. The pairs share the
// memory of p. Iteration ends at the first pair that cannot be parsed.
func (p Properties) All() iter.Seq[KeyValuePair] {
	return func(yield func(KeyValuePair) bool) {
		prev := uint64(0)
		for len(p) > 0 {
			pair, n, err := vi64.parsePair(p, prev)
			if err != nil || !yield(pair) {
				return
			}
			p, prev = p[n:], pair.Type
		}
	}
}

// Immutable returns the properties inside Immutable Properties (draft §12.7), or nil if there are none.
func (p Properties) Immutable() Properties {
	pair, _ := p.find(PropertyImmutable)
	return pair.Bytes
}

// Lookup returns the first property of type typ, from the mutable list or else from Immutable Properties. The draft
// requires a search of both (§12.7).
func (p Properties) Lookup(typ uint64) (KeyValuePair, bool) {
	if pair, ok := p.find(typ); ok {
		return pair, true
	}
	return p.Immutable().find(typ)
}

// find searches the mutable list only.
func (p Properties) find(typ uint64) (KeyValuePair, bool) {
	for pair := range p.All() {
		if pair.Type == typ {
			return pair, true
		}
		if pair.Type > typ {
			break
		}
	}
	return KeyValuePair{}, false
}

// value returns the value of an even type, or fallback if p does not have it.
func (p Properties) value(typ, fallback uint64) uint64 {
	if pair, ok := p.Lookup(typ); ok {
		return pair.Value
	}
	return fallback
}

// parse checks the syntax of p and calls each for every pair. It returns ErrIncomplete if p ends within a pair.
func (p Properties) parse(each func(KeyValuePair) error) error {
	prev := uint64(0)
	for len(p) > 0 {
		pair, n, err := vi64.parsePair(p, prev)
		if err != nil {
			return err
		}
		if err := each(pair); err != nil {
			return err
		}
		p, prev = p[n:], pair.Type
	}
	return nil
}

// Defaults of priorities that are absent.
const (
	DefaultPublisherPriority  uint8 = 128 // draft §12.4
	DefaultSubscriberPriority uint8 = 128 // draft §10.2.7
)

// Mandatory Track Properties (draft §2.5.1): an endpoint that does not understand one must not process the track.
const (
	minMandatoryProperty = 0x4000
	maxMandatoryProperty = 0x7fff
)

// isMandatory reports whether typ is in the range of Mandatory Track Properties (draft §2.5.1).
func isMandatory(typ uint64) bool {
	return minMandatoryProperty <= typ && typ <= maxMandatoryProperty
}

// Mandatory returns the first Mandatory Track Property in p. This package understands none, so the track must be
// refused with UNSUPPORTED_EXTENSION (draft §2.5.1).
func (p Properties) Mandatory() (typ uint64, found bool) {
	for _, list := range [...]Properties{p, p.Immutable()} {
		for pair := range list.All() {
			if isMandatory(pair.Type) {
				return pair.Type, true
			}
		}
	}
	return 0, false
}

// SubgroupDeliveryTimeout returns the publisher's timeout in milliseconds, or 0 if there is none (draft §12.1).
func (p Properties) SubgroupDeliveryTimeout() uint64 {
	return p.value(PropertySubgroupDeliveryTimeout, 0)
}

// ObjectDeliveryTimeout returns the publisher's timeout in milliseconds, or 0 if there is none (draft §12.2).
func (p Properties) ObjectDeliveryTimeout() uint64 {
	return p.value(PropertyObjectDeliveryTimeout, 0)
}

// DeliveryTimeouts returns the delivery timeouts that the first object of a subgroup has, in milliseconds, or nil for
// those that it does not have (draft-19 §8).
func (p Properties) DeliveryTimeouts() (object, subgroup *uint64) {
	find := func(typ uint64) *uint64 {
		if pair, ok := p.Lookup(typ); ok {
			return &pair.Value
		}
		return nil
	}
	return find(PropertyObjectDeliveryTimeout), find(PropertySubgroupDeliveryTimeout)
}

// MaxCacheDuration returns how long an object may be served from a cache, in milliseconds, and false if the publisher
// sets no limit (draft §12.3).
func (p Properties) MaxCacheDuration() (ms uint64, ok bool) {
	pair, ok := p.Lookup(PropertyMaxCacheDuration)
	return pair.Value, ok
}

// DefaultPublisherPriority returns the priority of subgroups and datagrams that have none of their own; 0 is the most
// urgent (draft §12.4).
func (p Properties) DefaultPublisherPriority() uint8 {
	return uint8(p.value(PropertyDefaultPublisherPriority, uint64(DefaultPublisherPriority)))
}

// DefaultPublisherGroupOrder returns the order that the publisher prefers (draft §12.5).
func (p Properties) DefaultPublisherGroupOrder() GroupOrder {
	return GroupOrder(p.value(PropertyDefaultPublisherGroupOrder, uint64(Ascending)))
}

// DynamicGroups reports whether subscribers may ask for new groups (draft §12.6).
func (p Properties) DynamicGroups() bool { return p.value(PropertyDynamicGroups, 0) == 1 }

// CheckTrack validates p as Track Properties. It returns a ProtocolError where the draft closes the session, and a
// MalformedTrackError where the track is malformed (draft §12.7).
func (p Properties) CheckTrack() error {
	immutable := 0
	err := p.parse(func(pair KeyValuePair) error {
		if pair.Type == PropertyImmutable {
			immutable++
			return checkImmutable(pair.Bytes, checkTrackProperty)
		}
		return checkTrackProperty(pair)
	})
	switch {
	case err == ErrIncomplete:
		return violation("track properties end within a key-value-pair")
	case err == nil && immutable > 1:
		return malformed("%d instances of immutable properties", immutable)
	}
	return err
}

// checkTrackProperty checks the values that the draft restricts. The draft names no error for a priority above 255
// (§12.4); here it is the same as for the other two.
func checkTrackProperty(pair KeyValuePair) error {
	switch pair.Type {
	case PropertyDefaultPublisherPriority:
		if pair.Value > 0xff {
			return violation("default publisher priority %d is above 255", pair.Value)
		}
	case PropertyDefaultPublisherGroupOrder:
		if pair.Value != uint64(Ascending) && pair.Value != uint64(Descending) {
			return violation("default publisher group order is %d, neither 1 nor 2", pair.Value)
		}
	case PropertyDynamicGroups:
		if pair.Value > 1 {
			return violation("dynamic groups is %d, neither 0 nor 1", pair.Value)
		}
	}
	return nil
}

// checkImmutable checks the contents of an Immutable Properties pair (draft §12.7).
func checkImmutable(p Properties, each func(KeyValuePair) error) error {
	err := p.parse(func(pair KeyValuePair) error {
		if pair.Type == PropertyImmutable {
			return malformed("immutable properties contain immutable properties")
		}
		return each(pair)
	})
	if err == ErrIncomplete {
		return malformed("immutable properties end within a key-value-pair")
	}
	return err
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

// checkTimeouts returns a ProtocolError if a publisher of draft-16 must not send Track Properties p (draft-16 §11.1).
func (p Properties) checkTimeouts() error {
	if pair, ok := p.Lookup(PropertyObjectDeliveryTimeout); ok && pair.Value == 0 {
		return violation("the delivery timeout is 0")
	}
	return nil
}

// withoutZeroTimeout returns p without a delivery timeout of 0, which is the same as none, and which draft-16 forbids.
func (p Properties) withoutZeroTimeout() Properties {
	if pair, ok := p.find(PropertyObjectDeliveryTimeout); !ok || pair.Value != 0 {
		return p
	}
	var kept []KeyValuePair
	for pair := range p.All() {
		if pair.Type != PropertyObjectDeliveryTimeout {
			kept = append(kept, pair)
		}
	}
	b, _ := NewProperties(kept...) // cannot fail: they come from properties
	return b
}
