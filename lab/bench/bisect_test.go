package bench

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var errProbe = errors.New("a probe failed")

func TestBisect(t *testing.T) {
	for i := range 2 * 120 {
		capacity, first, step := i/2, 10, 10
		if i%2 > 0 { // as if a run before had found about as much
			first, step = max(1, capacity+capacity/8), max(1, capacity/10)
		}
		tried := make(map[int]bool)
		got, err := bisect(first, step, 100, .1, func(n int) (bool, error) {
			require.False(t, tried[n], "%d is tried twice", n)
			require.True(t, n >= 1 && n <= 100, "%d is tried", n)
			tried[n] = true
			return n <= capacity, nil
		})
		require.NoError(t, err)
		want := min(capacity, 100)
		require.LessOrEqual(t, got, want)
		require.LessOrEqual(t, want-got, int(math.Ceil(max(1, .1*float64(want)))), "capacity %d, found %d", want, got)
		require.LessOrEqual(t, len(tried), 10)
		require.True(t, got == 0 || tried[got], "%d was not tried", got)
	}
	_, err := bisect(10, 10, 100, .1, func(int) (bool, error) { return false, errProbe })
	require.ErrorIs(t, err, errProbe)
}
