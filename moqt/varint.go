package moqt

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MaxVarintLen is the longest encoding of a vi64, in bytes.
const MaxVarintLen = 9

// VarintLen returns the length in bytes of the shortest encoding of x.
func VarintLen(x uint64) int {
	// Each of the first eight bytes adds seven bits, after length bits. Nine bytes hold all 64 bits.
	return min(max((bits.Len64(x)+6)/7, 1), MaxVarintLen)
}

// AppendVarint appends the shortest vi64 encoding of x (draft §1.4.1).
func AppendVarint(b []byte, x uint64) []byte {
	n := VarintLen(x)
	if n == MaxVarintLen {
		return binary.BigEndian.AppendUint64(append(b, 0xff), x)
	}
	// The number of leading ones, n-1, is the number of bytes that follow the first.
	x |= uint64(0xff00>>(n-1)&0xff) << (8 * (n - 1))
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(x>>(8*i)))
	}
	return b
}

// ParseVarint decodes the vi64 at the start of b and returns its value and encoded length.
// Encodings longer than necessary are valid (draft §1.4.1). It returns ErrIncomplete if b ends too early.
func ParseVarint(b []byte) (x uint64, n int, err error) {
	if len(b) == 0 {
		return 0, 0, ErrIncomplete
	}
	if b[0] < 0x80 {
		return uint64(b[0]), 1, nil
	}
	n = varintLenOf(b[0])
	if len(b) < n {
		return 0, 0, ErrIncomplete
	}
	if n < MaxVarintLen {
		x = uint64(b[0]) & (0xff >> n)
	}
	for _, c := range b[1:n] {
		x = x<<8 | uint64(c)
	}
	return x, n, nil
}

// varintLenOf returns the length of the encoding that starts with first.
func varintLenOf(first byte) int { return bits.LeadingZeros8(^first) + 1 }

// varintFormat is how a version writes variable-length integers.
type varintFormat uint8

const (
	vi64       varintFormat = iota // draft §1.4.1
	quicVarint                     // RFC 9000 §16, in draft-16
)

// maxQUICVarint is the largest number that quicVarint can express.
const maxQUICVarint = 1<<62 - 1

// max returns the largest number that f can express.
func (f varintFormat) max() uint64 {
	if f == quicVarint {
		return maxQUICVarint
	}
	return math.MaxUint64
}

// check returns an error if f cannot express one of the numbers.
func (f varintFormat) check(numbers ...uint64) error {
	for _, x := range numbers {
		if x > f.max() {
			return fmt.Errorf("number %d: must be at most %d in this version", x, f.max())
		}
	}
	return nil
}

// append appends the shortest encoding of x, which has to be at most max.
func (f varintFormat) append(b []byte, x uint64) []byte {
	if f == vi64 {
		return AppendVarint(b, x)
	}
	switch {
	case x < 1<<6:
		return append(b, byte(x))
	case x < 1<<14:
		return binary.BigEndian.AppendUint16(b, uint16(x)|1<<14)
	case x < 1<<30:
		return binary.BigEndian.AppendUint32(b, uint32(x)|2<<30)
	}
	return binary.BigEndian.AppendUint64(b, x|3<<62)
}

// parse is like ParseVarint.
func (f varintFormat) parse(b []byte) (x uint64, n int, err error) {
	if f == vi64 {
		return ParseVarint(b)
	}
	if len(b) == 0 {
		return 0, 0, ErrIncomplete
	}
	if n = f.lenOf(b[0]); len(b) < n {
		return 0, 0, ErrIncomplete
	}
	x = uint64(b[0] & 0x3f)
	for _, c := range b[1:n] {
		x = x<<8 | uint64(c)
	}
	return x, n, nil
}

// lenOf returns the length of the encoding that starts with first.
func (f varintFormat) lenOf(first byte) int {
	if f == vi64 {
		return varintLenOf(first)
	}
	return 1 << (first >> 6)
}

// appendPair appends p, which follows a pair of type prev (0 if p is the first). Types must not descend.
func (f varintFormat) appendPair(b []byte, prev uint64, p KeyValuePair) ([]byte, error) {
	switch {
	case len(p.Bytes) > MaxValueLen:
		return b, errValueTooLong(p.Type, uint64(len(p.Bytes)))
	case max(p.Type-prev, p.Value) > f.max():
		return b, fmt.Errorf("key-value-pair %#x: a number exceeds %d, the largest in this version", p.Type, f.max())
	}
	b = f.append(b, p.Type-prev)
	if p.Type%2 == 0 {
		return f.append(b, p.Value), nil
	}
	b = f.append(b, uint64(len(p.Bytes)))
	return append(b, p.Bytes...), nil
}

// parsePair decodes the pair at the start of b, which follows one of type prev (0 if it is the first), and
// returns its encoded length. Bytes shares the memory of b. It returns ErrIncomplete if b ends within the pair, and a
// ProtocolError if the type or the length is out of range.
func (f varintFormat) parsePair(b []byte, prev uint64) (p KeyValuePair, n int, err error) {
	delta, n, err := f.parse(b)
	if err != nil {
		return p, 0, err
	}
	if p.Type = prev + delta; p.Type < prev {
		return p, 0, violation("key-value-pair type exceeds 2^64-1")
	}
	value, m, err := f.parse(b[n:])
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

// appendPairs appends pairs in ascending order of type, keeping the order of equal types.
func (f varintFormat) appendPairs(b []byte, pairs []KeyValuePair) (_ []byte, err error) {
	pairs = slices.Clone(pairs)
	slices.SortStableFunc(pairs, func(p, q KeyValuePair) int { return cmp.Compare(p.Type, q.Type) })
	prev := uint64(0)
	for _, p := range pairs {
		if b, err = f.appendPair(b, prev, p); err != nil {
			return b, err
		}
		prev = p.Type
	}
	return b, nil
}

// properties returns p with the numbers of f.
func (f varintFormat) properties(p Properties) (Properties, error) {
	if f == vi64 {
		return p, nil
	}
	converted, err := convertProperties(p, vi64, f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("properties: %v", err) // without its type: the peer did nothing wrong
	case len(converted) > MaxObjectPropertiesLen:
		return nil, ErrPropertiesTooLong
	}
	return converted, nil
}

// appendProperties appends Properties Length and Properties (draft §11.2.1.2) of format f.
func (f varintFormat) appendProperties(b []byte, p Properties) []byte {
	b = f.append(b, uint64(len(p)))
	return append(b, p...)
}
