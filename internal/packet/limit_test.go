package packet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// appendLimit appends the frame of a limit.
func appendLimit(b []byte, l Limit) []byte {
	if l.Frame == FrameMaxStreamData {
		return AppendFrame(b, l.Frame, uint64(l.ID), uint64(l.Max))
	}
	return AppendFrame(b, l.Frame, uint64(l.Max))
}

var testLimits = []Limit{
	{FrameMaxData, 0, 0}, {FrameMaxData, 0, 1<<62 - 1}, {FrameMaxStreamData, 3, 70_000},
	{FrameMaxStreamsUni, 0, 1 << 60},
}

func TestParseLimit(t *testing.T) {
	for _, want := range testLimits {
		b := appendLimit(nil, want)
		got, rest, err := ParseLimit(append(b, "rest"...))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, "rest", string(rest))
		for n := range b {
			_, _, err := ParseLimit(b[:n])
			require.Error(t, err, "%d of %d bytes", n, len(b))
		}
	}
	for name, b := range map[string][]byte{
		"too many streams":      appendLimit(nil, Limit{FrameMaxStreamsUni, 0, 1<<60 + 1}),
		"bidirectional streams": AppendFrame(nil, 0x12, 5),
		"a long type":           {0x40, 0x10, 5},
		"a longer type":         {0x41, 0x10, 5},
		"nothing":               nil,
		"another frame":         AppendFrame(nil, FrameDataBlocked, 5),
	} {
		_, _, err := ParseLimit(b)
		require.Error(t, err, name)
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, l := range testLimits {
		f.Add(appendLimit(nil, l))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, rest, err := ParseLimit(b)
		if err != nil {
			return
		}
		require.Less(t, len(rest), len(b))
		require.GreaterOrEqual(t, l.ID, int64(0))
		require.GreaterOrEqual(t, l.Max, int64(0))
		again, rest, err := ParseLimit(appendLimit(nil, l))
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, l, again)
	})
}
