package moqt

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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
