//go:build unprotected

package packet

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without protection, the packet is the written bytes, and a constant of the length of a tag.
func TestUnprotected(t *testing.T) {
	for suite := range cipherSuites {
		k, err := NewKey(0, suite, Version1, make([]byte, 32))
		require.NoError(t, err)
		var s Sealer
		s.Install(0, k)
		written := append([]byte{0x43, 9, 9, 0x12, 0x34, 0x56, 0x78}, "payload that is long enough for a sample"...)
		p := s.Seal(slices.Grow(slices.Clone(written), TagLength), 7, 0x12345678, 0)
		s.Protect()
		require.Equal(t, string(written)+unprotectedTag, string(p))
		var o Opener
		o.Install(0, k)
		number, payload, ok := o.Open(p, 3, 0x12345678)
		require.True(t, ok)
		require.EqualValues(t, 0x12345678, number)
		require.Equal(t, written[7:], payload)
		_, _, ok = o.Open(p[:len(p)-1], 3, 0x12345678)
		require.False(t, ok)
	}
	require.Len(t, unprotectedTag, TagLength)
}
