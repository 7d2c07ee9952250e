package moqt

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

// Mandatory returns the first Mandatory Track Property in p for which understood returns false; a nil understood knows
// none. If there is one, the track must be refused with UNSUPPORTED_EXTENSION (draft §2.5.1).
func (p Properties) Mandatory(understood func(typ uint64) bool) (typ uint64, found bool) {
	for _, list := range [...]Properties{p, p.Immutable()} {
		for pair := range list.All() {
			if isMandatory(pair.Type) && (understood == nil || !understood(pair.Type)) {
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
