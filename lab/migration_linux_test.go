package lab_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
)

// ping sends a datagram there and back and returns the address that the server saw.
func ping(t *testing.T, client, server interface {
	ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort([]byte, netip.AddrPort) (int, error)
	SetReadDeadline(time.Time) error
}, to netip.AddrPort) netip.AddrPort {
	t.Helper()
	buffer := make([]byte, 64)
	_, err := client.WriteToUDPAddrPort([]byte("there"), to)
	require.NoError(t, err)
	require.NoError(t, server.SetReadDeadline(time.Now().Add(time.Minute)))
	_, seen, err := server.ReadFromUDPAddrPort(buffer)
	require.NoError(t, err)
	_, err = server.WriteToUDPAddrPort([]byte("back"), seen)
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Minute)))
	n, _, err := client.ReadFromUDPAddrPort(buffer)
	require.NoError(t, err)
	require.Equal(t, "back", string(buffer[:n]))
	return netip.AddrPortFrom(seen.Addr().Unmap(), seen.Port())
}

func TestRebind(t *testing.T) {
	for name, topology := range map[string]lab.Topology{
		"checksums by the device":   {Subscribers: 1},
		"checksums by the host":     {Subscribers: 1, SoftwareChecksums: true},
		"with delay and duplicates": {Subscribers: 1, Downlink: lab.Conditions{Delay: time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			l := labtest.New(t, topology)
			sub := l.Subscribers[0]
			for _, addr := range []netip.Addr{l.Relay.Device("down").IPv4.Addr(), l.Relay.Device("down").IPv6.Addr()} {
				server, to := listen(t, l.Relay, addr)
				client, err := sub.ListenUDP(netip.AddrPort{})
				require.NoError(t, err)
				defer client.Close()
				before := ping(t, client, server, to)
				seen := map[uint16]bool{before.Port(): true}
				for range 3 {
					require.NoError(t, sub.Devices[0].Link.Rebind())
					after := ping(t, client, server, to)
					require.Equal(t, before.Addr(), after.Addr())
					require.False(t, seen[after.Port()], "a port that was seen before")
					seen[after.Port()] = true
				}
			}
			stats(t, sub.Devices[0].Link, lab.FromHost)
		})
	}
}

func TestChangeAddress(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	device := l.Subscribers[0].Devices[0]
	for _, pick := range []func(*lab.Device) netip.Addr{
		func(d *lab.Device) netip.Addr { return d.IPv4.Addr() },
		func(d *lab.Device) netip.Addr { return d.IPv6.Addr() },
	} {
		server, to := listen(t, l.Relay, pick(l.Relay.Device("down")))
		client, err := l.Subscribers[0].ListenUDP(netip.AddrPort{})
		require.NoError(t, err)
		defer client.Close()
		for range 3 {
			before := ping(t, client, server, to)
			require.Equal(t, pick(device), before.Addr())
			require.NoError(t, device.ChangeAddress())
			after := ping(t, client, server, to)
			require.Equal(t, pick(device), after.Addr())
			require.NotEqual(t, before.Addr(), after.Addr())
			require.Equal(t, before.Port(), after.Port())
		}
	}
}

// A host may move while it is unplugged.
func TestChangeAddressWithoutCarrier(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	device := l.Subscribers[0].Devices[0]
	require.NoError(t, device.Link.SetUp(false))
	require.NoError(t, device.ChangeAddress())
	require.NoError(t, device.Link.SetUp(true))
	exchange(t, l.Relay, l.Subscribers[0], device.IPv4.Addr())
	exchange(t, l.Relay, l.Subscribers[0], device.IPv6.Addr())
}
