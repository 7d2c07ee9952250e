package moqt

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// MaxValueLen is the longest value of a Key-Value-Pair, in bytes (draft §1.4.3).
const MaxValueLen = 1<<16 - 1

// KeyValuePair is a Setup Option or a Property (draft §1.4.3).
type KeyValuePair struct {
	Type  uint64
	Value uint64 // if Type is even
	Bytes []byte // if Type is odd, at most MaxValueLen bytes
}

// appendKeyValuePair appends p, which follows a pair of type prev (0 if p is the first). Types must not descend.
func appendKeyValuePair(b []byte, prev uint64, p KeyValuePair) []byte {
	b = AppendVarint(b, p.Type-prev)
	if p.Type%2 == 0 {
		return AppendVarint(b, p.Value)
	}
	b = AppendVarint(b, uint64(len(p.Bytes)))
	return append(b, p.Bytes...)
}

// parseKeyValuePair decodes the pair at the start of b, which follows one of type prev (0 if it is the first), and
// returns its encoded length. Bytes shares the memory of b. It returns ErrIncomplete if b ends within the pair, and a
// ProtocolError if the type or the length is out of range.
func parseKeyValuePair(b []byte, prev uint64) (p KeyValuePair, n int, err error) {
	delta, n, err := ParseVarint(b)
	if err != nil {
		return p, 0, err
	}
	if p.Type = prev + delta; p.Type < prev {
		return p, 0, violation("key-value-pair type exceeds 2^64-1")
	}
	value, m, err := ParseVarint(b[n:])
	if err != nil {
		return p, 0, err
	}
	n += m
	if p.Type%2 == 0 {
		p.Value = value
		return p, n, nil
	}
	if value > MaxValueLen {
		return p, 0, breach(errValueTooLong(p.Type, value))
	}
	end := n + int(value)
	if end > len(b) {
		return p, 0, ErrIncomplete
	}
	p.Bytes = b[n:end:end]
	return p, end, nil
}

func errValueTooLong(typ, size uint64) error {
	return fmt.Errorf("key-value-pair %#x of %d bytes, at most %d are allowed", typ, size, MaxValueLen)
}

// appendKeyValuePairs appends pairs in ascending order of type, keeping the order of equal types.
func appendKeyValuePairs(b []byte, pairs []KeyValuePair) ([]byte, error) {
	pairs = slices.Clone(pairs)
	slices.SortStableFunc(pairs, func(p, q KeyValuePair) int { return cmp.Compare(p.Type, q.Type) })
	prev := uint64(0)
	for _, p := range pairs {
		if len(p.Bytes) > MaxValueLen {
			return b, errValueTooLong(p.Type, uint64(len(p.Bytes)))
		}
		b = appendKeyValuePair(b, prev, p)
		prev = p.Type
	}
	return b, nil
}

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

// Properties are Track or Object Properties (draft §2.5) as they are on the wire: Key-Value-Pairs without a length in
// front. They stay encoded because relays forward them byte by byte. The zero value has no properties.
type Properties []byte

// NewProperties encodes pairs. Their order does not matter: it sorts them by type.
func NewProperties(pairs ...KeyValuePair) (Properties, error) {
	return appendKeyValuePairs(nil, pairs)
}

// All iterates over the mutable list, where Immutable Properties are one pair; see Immutable. The pairs share the
// memory of p. Iteration ends at the first pair that cannot be parsed.
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

// Immutable returns the properties inside Immutable Properties (draft §12.7), or nil if there are none.
func (p Properties) Immutable() Properties {
	pair, _ := p.find(PropertyImmutable)
	return pair.Bytes
}

// Lookup returns the first property of type typ, from the mutable list or else from Immutable Properties. The draft
// demands that both are searched (§12.7).
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
