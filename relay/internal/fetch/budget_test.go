package fetch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWaitsForUpstreamRelaysAreLimited has a track that changes again and again while an upstream relay connects.
func TestWaitsForUpstreamRelaysAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Budget{each: 10 * time.Second}
		waits := 0
		for change := make(chan struct{}); ; change = make(chan struct{}) {
			time.AfterFunc(4*time.Second, func() { close(change) })
			if !b.Await(t.Context(), change) {
				break
			}
			waits++
			require.Less(t, waits, 10)
		}
		require.Equal(t, 2, waits)
		changed := make(chan struct{})
		close(changed)
		require.False(t, b.Await(t.Context(), changed), "the time is up for the rest of the request")
	})
}
