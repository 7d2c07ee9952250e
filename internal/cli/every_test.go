package cli

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		stop := Every(time.Second, func() { calls++ })
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3, calls)
		stop()
		require.Equal(t, 4, calls, "once at the end")
	})
}
