package delay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBins puts delays into bins: each bin begins where its predecessor ends.
func TestBins(t *testing.T) {
	require.Zero(t, Start(0))
	require.Equal(t, 1024*time.Nanosecond, Start(1))
	require.Equal(t, 1280*time.Nanosecond, Start(2))
	require.Equal(t, time.Duration(1<<BinLast), Start(Bins-1))
	for bin := range Bins {
		require.Equal(t, bin, binOf(Start(bin)))
		if bin > 0 {
			require.Equal(t, bin-1, binOf(Start(bin)-1))
		}
	}
	require.Zero(t, binOf(-time.Second), "a clock that stepped back")
	require.Equal(t, Bins-1, binOf(time.Hour))
}

func TestRecorder(t *testing.T) {
	var r Recorder
	for _, d := range []time.Duration{500, 1024, 1100, 2048, time.Minute} {
		r.Note(d)
	}
	h := Histogram{Sum: 1}
	h.Bins[2] = 7
	r.AddTo(&h)
	require.Equal(t, 500+1024+1100+2048+time.Minute+1, h.Sum)
	require.Equal(t, []uint64{1, 2, 7, 0, 0, 1}, h.Bins[:6])
	require.EqualValues(t, 1, h.Bins[Bins-1])
	require.EqualValues(t, 12, h.Count())
	require.EqualValues(t, 3, h.Below(2))
	twice := h
	twice.Add(&h)
	require.EqualValues(t, 24, twice.Count())
}
