package moqt

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseVarint(t *testing.T) {
	for _, tc := range []struct {
		wire string
		want uint64
	}{
		// The examples of draft §1.4.1.
		{"25", 37},
		{"8025", 37},
		{"bbbd", 15_293},
		{"ed7f3e7d", 226_442_877},
		{"faa1a0e403d8", 2_893_212_287_960},
		{"fc8998abc66bc0", 151_288_809_941_952},
		{"fefa318fa8e3ca11", 70_423_237_261_249_041},
		{"ffffffffffffffffff", math.MaxUint64},
		// Encodings longer than necessary.
		{"c00025", 37},
		{"ff0000000000000025", 37},
	} {
		t.Run(tc.wire, func(t *testing.T) {
			b := unhex(tc.wire)
			x, n, err := ParseVarint(append(b, 0xaa))
			require.NoError(t, err)
			require.Equal(t, tc.want, x)
			require.Len(t, b, n)
			for i := range b {
				_, _, err := ParseVarint(b[:i])
				require.ErrorIs(t, err, ErrIncomplete, "first %d bytes", i)
			}
		})
	}
}

func TestAppendVarint(t *testing.T) {
	for _, tc := range []struct {
		x    uint64
		wire string
	}{
		{0, "00"},
		{1<<7 - 1, "7f"},
		{1 << 7, "8080"},
		{1<<14 - 1, "bfff"},
		{1 << 14, "c04000"},
		{1<<21 - 1, "dfffff"},
		{1 << 21, "e0200000"},
		{1<<28 - 1, "efffffff"},
		{1 << 28, "f010000000"},
		{1<<35 - 1, "f7ffffffff"},
		{1 << 35, "f80800000000"},
		{1<<42 - 1, "fbffffffffff"},
		{1 << 42, "fc040000000000"},
		{1<<49 - 1, "fdffffffffffff"},
		{1 << 49, "fe02000000000000"},
		{1<<56 - 1, "feffffffffffffff"},
		{1 << 56, "ff0100000000000000"},
		{math.MaxUint64, "ffffffffffffffffff"},
	} {
		t.Run(strconv.FormatUint(tc.x, 10), func(t *testing.T) {
			require.Equal(t, unhex(tc.wire), AppendVarint(nil, tc.x))
			require.Equal(t, len(tc.wire)/2, VarintLen(tc.x))
		})
	}
}

// anyUint64 draws numbers of all encoded lengths with the same probability.
func anyUint64() *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		return rapid.Uint64().Draw(t, "bits") >> rapid.IntRange(0, 63).Draw(t, "shift")
	})
}
