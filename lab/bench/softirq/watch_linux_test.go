package softirq

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
)

// begin begins to watch until the test ends.
func begin(t *testing.T, drivers Role) *Watch {
	t.Helper()
	w, err := Begin(drivers)
	if missing, ok := errors.AsType[*lab.MissingError](err); ok && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(missing)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// The publisher's process carries its packets to the relay. What they take there is the relay's, whose process does
// nothing. Only the relay's namespace has a role: each of the others gets packets of the kernel's own at times, as MLD
// reports.
func TestWatch(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	began := time.Now()
	w := begin(t, Nobody)
	inode, err := l.Relay.Namespace()
	require.NoError(t, err)
	require.NoError(t, w.AddNamespace(inode, Relay))
	require.NoError(t, w.AddProcess(os.Getpid(), Publisher))
	before, err := w.Read()
	require.NoError(t, err)
	conn, err := l.Publisher.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	defer conn.Close()
	socket, err := l.Relay.ListenUDP(netip.AddrPortFrom(l.Relay.Device("up").IPv6.Addr(), 0))
	require.NoError(t, err)
	defer socket.Close()
	to := socket.LocalAddr().(*net.UDPAddr).AddrPort()
	const packets = 100
	for range packets {
		_, err := conn.WriteToUDPAddrPort([]byte("packet"), to)
		require.NoError(t, err)
	}
	after, err := w.Read()
	require.NoError(t, err)
	for r := range roles {
		after.Devices[r] -= before.Devices[r]
		after.Processes[r] -= before.Processes[r]
	}
	require.GreaterOrEqual(t, after.Devices[Relay], packets*time.Nanosecond, "each takes some time")
	require.Zero(t, after.Devices[Subscribers])
	require.Zero(t, after.Devices[Publisher], "its process interrupts itself, for the relay")
	require.Positive(t, after.Devices[Nobody], "the links have their part")
	interrupted := after.Processes[Publisher] + after.Processes[Nobody]
	require.Positive(t, interrupted, "a thread of the kernel may have been there")
	require.Zero(t, after.Processes[Relay])
	require.LessOrEqual(t, after.Devices[Relay], time.Since(began)*time.Duration(runtime.NumCPU()))
}
