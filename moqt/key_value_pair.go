package moqt

import (
	"cmp"
	"fmt"
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

// appendKeyValuePair appends p after a pair of type prev, or 0 if it is the first. Types have to ascend.
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
		return p, 0, violation("key-value-pair %#x of %d bytes, at most %d are allowed", p.Type, value, MaxValueLen)
	}
	end := n + int(value)
	if end > len(b) {
		return p, 0, ErrIncomplete
	}
	p.Bytes = b[n:end:end]
	return p, end, nil
}

// appendKeyValuePairs appends pairs in ascending order of type, keeping the order of equal types.
func appendKeyValuePairs(b []byte, pairs []KeyValuePair) ([]byte, error) {
	pairs = slices.Clone(pairs)
	slices.SortStableFunc(pairs, func(p, q KeyValuePair) int { return cmp.Compare(p.Type, q.Type) })
	prev := uint64(0)
	for _, p := range pairs {
		if len(p.Bytes) > MaxValueLen {
			return b, fmt.Errorf("key-value-pair %#x of %d bytes, at most %d are allowed", p.Type, len(p.Bytes), MaxValueLen)
		}
		b = appendKeyValuePair(b, prev, p)
		prev = p.Type
	}
	return b, nil
}
