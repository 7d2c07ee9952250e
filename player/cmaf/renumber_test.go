package cmaf

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two copies of a file become one with twice the tracks.
func TestRenumber(t *testing.T) {
	in, chunks := readAll(t, sample(t))
	other, err := in.Renumber(map[uint32]uint32{1: 3, 2: 4})
	require.NoError(t, err)
	require.Equal(t, []uint32{3, 4}, []uint32{other.Tracks[0].ID, other.Tracks[1].ID})
	require.Equal(t, len(in.Data), len(other.Data))
	require.EqualValues(t, 3, binary.BigEndian.Uint32(find(other.Data, "moov", "mvex", "trex")[4:]))
	back, err := other.Renumber(map[uint32]uint32{3: 1, 4: 2})
	require.NoError(t, err)
	require.Equal(t, in.Data, back.Data)
	both, err := Join(in, other)
	require.NoError(t, err)
	require.Len(t, both.Tracks, 4)

	for _, c := range chunks[:4] {
		moved := c.WithTrack(c.Track + 2)
		got, err := both.ParseChunk(moved.Data)
		require.NoError(t, err)
		require.Equal(t, moved, got)
		require.True(t, bytes.Equal(c.Data, moved.WithTrack(c.Track).Data))
		samples, err := both.Samples(moved.Data)
		require.NoError(t, err)
		want, err := in.Samples(c.Data)
		require.NoError(t, err)
		require.Equal(t, want, samples)
	}
}
