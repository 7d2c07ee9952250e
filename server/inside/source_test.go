package inside

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/relay"
)

// TestGuests lists the clients of other protocols that came first, with who sends their packets, and counts the others.
func TestGuests(t *testing.T) {
	all := []relay.GuestStatus{{
		Remote: "192.0.2.1:5000", Protocol: "rtsp", Carrier: "udp", Namespace: "live-cam",
		Received: 1, Sent: 2, Kernel: 3, Process: 4, Dropped: 5,
	}}
	list, more := guestsOf(all)
	require.Zero(t, more)
	require.Equal(t, []Guest{{
		Remote: "192.0.2.1:5000", Protocol: "rtsp", Carrier: "udp", Namespace: "live-cam",
		Received: 1, Sent: 2, Kernel: 3, Process: 4, Dropped: 5,
	}}, list)

	for i := range maxGuests + 6 {
		all = append(all, relay.GuestStatus{Remote: fmt.Sprintf("192.0.2.2:%d", i), Publishes: true})
	}
	list, more = guestsOf(all)
	require.Len(t, list, maxGuests)
	require.Equal(t, 7, more)
	require.True(t, list[maxGuests-1].Publishes)
	require.Equal(t, all[maxGuests-1].Remote, list[maxGuests-1].Remote)
}
