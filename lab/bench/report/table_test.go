package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

func TestDifference(t *testing.T) {
	a, b := result.Params{Load: "idle", Media: "mock"}, result.Params{Load: "hog", Media: "mock", Rate: 5}
	require.Equal(t, "hog", difference([]result.Params{a, b}, b))
	c := result.Params{Load: "idle", Media: "mock ladder", Rate: 2}
	require.Equal(t, "idle, mock ladder, 2 Mbit/s", difference([]result.Params{a, b, c}, c))
}
