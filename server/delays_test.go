package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/delay"
)

// TestDelaysAreMeasuredOnDemand asks for delays now and then, and then no more.
func TestDelaysAreMeasuredOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		var switched atomic.Int32
		m := delayMeter{measure: func(now bool) {
			on.Store(now)
			switched.Add(1)
		}}
		m.end()
		require.Zero(t, switched.Load())
		for range 3 {
			m.goOn()
			time.Sleep(measureFor - time.Second)
			require.True(t, on.Load())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, on.Load())
		require.EqualValues(t, 2, switched.Load())
		m.goOn()
		m.end()
		require.False(t, on.Load())
		require.EqualValues(t, 4, switched.Load())
	})
}

func TestBuckets(t *testing.T) {
	var h delay.Histogram
	h.Bins[0], h.Bins[1], h.Bins[4], h.Bins[5], h.Bins[delay.Bins-1] = 1, 2, 3, 4, 5
	b := buckets(&h)
	require.Len(t, b, delay.BinLast-delay.BinFirst+1)
	require.EqualValues(t, 1, b[1024e-9])
	require.EqualValues(t, 6, b[2048e-9])
	require.EqualValues(t, 10, b[4096e-9])
	require.EqualValues(t, 10, b[(1<<delay.BinLast*time.Nanosecond).Seconds()], "the last bin is beyond all of them")
}
