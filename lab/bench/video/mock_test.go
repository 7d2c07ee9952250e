package video

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func TestMock(t *testing.T) {
	m := Mock{}.WithDefaults()
	require.NoError(t, m.Validate())
	var bytes int
	for n := range uint64(100) { // two groups
		bytes += m.Size(n)
		require.Len(t, m.Payload(n, time.Now()), m.Size(n))
	}
	require.InEpsilon(t, 2e6*4, bytes*8, .001, "4 s of 2 Mbit/s")
	require.InEpsilon(t, 5, float64(m.Size(50))/float64(m.Size(51)), .001)
	at := moqt.Location{Group: 1, Object: 2}
	require.Equal(t, Frame{Location: at, Priority: 64, Due: 52 * 40 * time.Millisecond}, m.Frame(52))

	m.Layers = true
	var got []int
	for n := range uint64(9) {
		got = append(got, m.Frame(n).Layer)
	}
	require.Equal(t, []int{
		LayerKey, LayerTop, LayerMiddle, LayerTop, LayerBase, LayerTop, LayerMiddle, LayerTop, LayerBase,
	}, got)
	for n := range uint64(100) {
		on, depends := m.DependsOn(n)
		require.Equal(t, n%50 != 0, depends)
		if depends {
			require.Less(t, on, n)
			require.Equal(t, m.Frame(n).Group, m.Frame(on).Group)
			require.LessOrEqual(t, m.Frame(on).Layer, m.Frame(n).Layer)
		}
	}
	ladder := m.Ladder()
	require.Equal(t, m, ladder[2])
	require.Equal(t, [2]float64{.4e6, 1e6}, [2]float64{ladder[0].Rate, ladder[1].Rate})
	require.Equal(t, m.Frame(77), ladder[0].Frame(77))
	for _, bad := range []Mock{{Rate: -1}, {Rate: 100}, {Rate: 1e9}} {
		require.Error(t, bad.WithDefaults().Validate(), "%+v", bad)
	}
}
