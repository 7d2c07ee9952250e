package thorough

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSkips(t *testing.T) {
	for _, c := range []struct {
		check, browser        string
		runsOnly, runsBrowser bool
	}{{}, {check: "1", runsOnly: true, runsBrowser: true}, {browser: "1", runsBrowser: true}} {
		t.Setenv("SLUICE_CHECK", c.check)
		t.Setenv("SLUICE_BROWSER", c.browser)
		require.Equal(t, c.runsOnly, runs(t, Only))
		require.Equal(t, c.runsBrowser, runs(t, Browser))
	}
}

// runs reports whether skip lets a test run.
func runs(t *testing.T, skip func(testing.TB)) (ran bool) {
	require.True(t, t.Run("", func(t *testing.T) {
		skip(t)
		ran = true
	}))
	return ran
}
