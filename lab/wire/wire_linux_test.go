package wire

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// The header in front of a frame becomes a tag behind its addresses.
func TestTag(t *testing.T) {
	packet := []byte("to-to-from-frETmedia")
	var header []byte
	header = binary.NativeEndian.AppendUint64(header, 12345)
	header = binary.NativeEndian.AppendUint16(header, 0x123)
	header = append(binary.NativeEndian.AppendUint16(header, 1), 0, 0, 0, 0)
	require.Len(t, header, HeaderLength)
	f := new(frame)
	n := copy(f.data[:], append(header, packet...))
	at, lane, reordered := f.tag(n)
	require.EqualValues(t, 12345, at)
	require.EqualValues(t, 0x123, lane)
	require.True(t, reordered)
	want := append([]byte("to-to-from-f"), 0x81, 0x00, 0x01, 0x23)
	require.Equal(t, append(want, packet[12:]...), f.data[f.start:f.end])
}
