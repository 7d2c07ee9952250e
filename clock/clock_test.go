package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCeil(t *testing.T) {
	for at, want := range map[Time]Time{
		0: 0, 1: 4, 3: 4, 4: 4, 5: 8, Never - 4: Never - 3, Never - 1: Never, Never: Never,
	} {
		require.Equal(t, want, at.Ceil(4*time.Nanosecond), "%d", at)
	}
}
