package thorough

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnly(t *testing.T) {
	for value, runs := range map[string]bool{"": false, "1": true} {
		t.Setenv("SLUICE_CHECK", value)
		ran := false
		require.True(t, t.Run("value "+value, func(t *testing.T) {
			Only(t)
			ran = true
		}))
		require.Equal(t, runs, ran)
	}
}
