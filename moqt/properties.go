package moqt

import "iter"

// Property types (draft §15.7).
const (
	PropertyObjectDeliveryTimeout      uint64 = 0x02 // track
	PropertyMaxCacheDuration           uint64 = 0x04 // track
	PropertySubgroupDeliveryTimeout    uint64 = 0x06 // track
	PropertyImmutable                  uint64 = 0x0b // track, object
	PropertyDefaultPublisherPriority   uint64 = 0x0e // track
	PropertyDefaultPublisherGroupOrder uint64 = 0x22 // track
	PropertyDynamicGroups              uint64 = 0x30 // track
	PropertyPriorGroupIDGap            uint64 = 0x3c // object
	PropertyPriorObjectIDGap           uint64 = 0x3e // object
)

// Properties are the Track or Object Properties (draft §2.5) as they are on the wire: Key-Value-Pairs without a
// length in front. Relays forward them byte by byte, so this is also how they are kept. The zero value has none.
type Properties []byte

// NewProperties encodes pairs, in ascending order of type whatever their order here.
func NewProperties(pairs ...KeyValuePair) (Properties, error) {
	return appendKeyValuePairs(nil, pairs)
}

// All iterates over the mutable list: an Immutable Properties pair is one item, and Immutable looks into it.
// The pairs share the memory of p. Iteration ends at the first pair that cannot be parsed.
func (p Properties) All() iter.Seq[KeyValuePair] {
	return func(yield func(KeyValuePair) bool) {
		prev := uint64(0)
		for len(p) > 0 {
			pair, n, err := parseKeyValuePair(p, prev)
			if err != nil || !yield(pair) {
				return
			}
			p, prev = p[n:], pair.Type
		}
	}
}

// Immutable returns the properties inside Immutable Properties (draft §12.7), nil if there are none.
func (p Properties) Immutable() Properties {
	pair, _ := p.find(PropertyImmutable)
	return pair.Bytes
}

// Lookup returns the first property of type typ, from the mutable list or else from Immutable Properties, in both of
// which the draft (§12.7) wants processors to search.
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

// parse checks the syntax of p and calls each for every pair. Truncation is reported as ErrIncomplete.
func (p Properties) parse(each func(KeyValuePair) error) error {
	prev := uint64(0)
	for len(p) > 0 {
		pair, n, err := parseKeyValuePair(p, prev)
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
