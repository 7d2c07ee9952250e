package hub

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// TestForwardable checks what the fast path is told of a subscription, as it looks at neither Range Filters nor ends
// within groups.
func TestForwardable(t *testing.T) {
	last := uint64(math.MaxUint64)
	filtered := moqt.RangeFilters{{Type: moqt.ParameterObjectIDFilter, Ranges: []moqt.ValueRange{{First: 1, Last: 1}}}}
	for name, tt := range map[string]struct {
		wanted  moqt.Range
		filters moqt.RangeFilters
		end     moqt.Location
		want    bool
	}{
		"all":               {moqt.Everything, nil, moqt.MaxLocation, true},
		"filtered":          {moqt.Everything, filtered, moqt.MaxLocation, false},
		"groups":            {moqt.Range{Start: at(1, 3), End: at(5, last)}, nil, at(5, last), true},
		"end in a group":    {moqt.Range{Start: at(1, 3), End: at(5, 0)}, nil, at(4, last), true},
		"a part of a group": {moqt.Range{Start: at(5, 3), End: at(5, 7)}, nil, at(5, 7), false},
	} {
		v := selection{passing: tt.wanted, served: moqt.Everything, filters: tt.filters, layout: moqt.DataLayout1}
		r, ok := v.forwardable()
		require.Equal(t, tt.want, ok, name)
		require.Equal(t, moqt.Range{Start: tt.wanted.Start, End: tt.end}, r, name)
		v.layout = moqt.DataLayout2
		_, ok = v.forwardable()
		require.False(t, ok, name)
	}
}

func TestIsReport(t *testing.T) {
	require.False(t, isReport(moqt.Parameters{}))
	require.True(t, isReport(moqt.Parameters{Playback: &moqt.Playback{}}))
	require.True(t, isReport(moqt.Parameters{
		Playback: &moqt.Playback{}, AuthorizationTokens: []moqt.Token{{Value: []byte("t")}},
	}))
	require.False(t, isReport(moqt.Parameters{Playback: &moqt.Playback{}, SubscriberPriority: new(uint8(1))}))
}
