package cli

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTexts(t *testing.T) {
	for want, n := range map[string]uint64{
		"0 B": 0, "999 B": 999, "1.0 kB": 1000, "548.3 kB": 548295, "1.5 MB": 1_500_000, "2.0 GB": 2e9, "3.0 TB": 3e12,
		"5000.0 TB": 5e15,
	} {
		require.Equal(t, want, BytesText(n))
	}
	require.Equal(t, "10.02 s", SecondsText(10016*time.Millisecond))
}

func TestCountsText(t *testing.T) {
	counts := map[string]uint64{"window": 5, "out_of_order": 12, "not_open": 5, "filtered": 2, "priority": 1, "none": 0}
	require.Equal(t, "12 out_of_order, 5 not_open, 5 window, 3 others", CountsText(counts, 3))
	require.Equal(t, "12 out_of_order, 5 not_open, 5 window, 2 filtered, 1 priority", CountsText(counts, 10))
	require.Empty(t, CountsText(map[string]uint64{"none": 0}, 3))
	require.Empty(t, CountsText(nil, 3))
}

func TestIsTerminal(t *testing.T) {
	require.False(t, IsTerminal(t))
	f, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	require.False(t, IsTerminal(f))
	require.NoError(t, KeepOpen(f).Close())
	require.NoError(t, f.Close(), "KeepOpen has not closed it")
	require.False(t, IsTerminal(f))
}
