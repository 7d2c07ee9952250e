package pub

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A delivery waits for what has begun, and nothing begins any more when it has.
func TestDeliveryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &delivery{running: 1, idle: make(chan struct{})}
		group, fill := make(chan struct{}), make(chan struct{})
		require.True(t, d.spawn(func() { <-group }))
		d.finished() // follow
		require.True(t, d.spawn(func() { <-fill }))
		close(group)
		synctest.Wait()
		require.True(t, d.spawn(func() {}))
		synctest.Wait()
		select {
		case <-d.idle:
			require.Fail(t, "a fill is being sent")
		default:
		}
		close(fill)
		<-d.idle
		require.False(t, d.spawn(func() {}))
	})
}
