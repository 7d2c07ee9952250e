package forwarding

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/internal/thorough"
	"sluice/rtt/flood"
)

// TestEndHosts has flows take turns. Each segment is a packet.
func TestEndHosts(t *testing.T) {
	thorough.Root(t)
	runtime.LockOSThread() // the thread ends with the test
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	h, err := newEndHosts(3)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	const segments = 100
	got, err := h.forward(segments)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.packets, segments)
	require.GreaterOrEqual(t, got.bytes, segments*flood.DataFrame)
	require.Less(t, got.packets, 3*segments)
	require.NotZero(t, got.used)
	require.Equal(t, 5, h.next, "flows that have sent: 4 times 23 segments and 8")
}
