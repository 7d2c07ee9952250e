package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
)

// TestBulkFlow has a flow through a bottleneck: it gets through, and it fills the queue.
func TestBulkFlow(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 2})
	link := l.Subscribers[0].Devices[0].Link
	require.NoError(t, link.Set(lab.ToHost, lab.Conditions{Rate: 8_000_000}))
	var f bulkFlow
	f.stop() // it was not started
	require.NoError(t, f.start(l.Subscribers[1], l.Subscribers[0]))
	require.Eventually(t, func() bool {
		s, err := link.Stats(lab.ToHost)
		return err == nil && s.QueueDrops > 0
	}, time.Minute, time.Millisecond, "the flow does not fill the queue")
	f.stop()
	require.Positive(t, f.received)
}
