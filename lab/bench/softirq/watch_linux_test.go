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
// nothing, and the time of subscribers, who get none, is nobody's.
func TestWatch(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	began := time.Now()
	w := begin(t, Nobody)
	for host, role := range map[*lab.Host]Role{l.Relay: Relay, l.Publisher: Publisher, l.Subscribers[0]: Subscribers} {
		inode, err := host.Namespace()
		require.NoError(t, err)
		require.NoError(t, w.AddNamespace(inode, role))
	}
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
	got := after.Minus(before)
	require.GreaterOrEqual(t, got.Devices[Relay], packets*time.Nanosecond, "each takes some time")
	require.Zero(t, got.Devices[Subscribers])
	require.Zero(t, got.Devices[Publisher], "it received nothing")
	require.Positive(t, got.Devices[Nobody], "the links have their part")
	require.Positive(t, got.Processes[Publisher]+got.Processes[Nobody], "a thread of the kernel may have been there")
	require.Zero(t, got.Processes[Relay])
	require.LessOrEqual(t, got.Devices[Relay], time.Since(began)*time.Duration(runtime.NumCPU()))
}
