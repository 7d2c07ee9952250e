package packet

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDecodeNumber compares with the definition: the number with these low bits that is closest to the expected one.
func TestDecodeNumber(t *testing.T) {
	require.EqualValues(t, 0xa82f9b32, DecodeNumber([]byte{0x9b, 0x32}, 0xa82f30eb)) // RFC 9000 §A.3
	for length := 1; length <= 4; length++ {
		window := uint64(1) << (8 * length)
		for _, expected := range []uint64{0, 1, window / 2, window - 1, window, 3*window + 7, 1<<40 - 1, 1 << 40} {
			for _, d := range []int64{-int64(window/2) + 1, -1, 0, 1, int64(window / 2)} {
				number := int64(expected) + d
				if number < 0 {
					continue
				}
				b := binary.BigEndian.AppendUint32(nil, uint32(number))[4-length:]
				require.EqualValues(t, number, DecodeNumber(b, expected), "expected %d, %d bytes", expected, length)
			}
		}
	}
}
