package lab_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
	"sluice/internal/lab/labtest"
)

// exchange sends one datagram from a to b and back.
func exchange(t *testing.T, a, b *lab.Host, to netip.Addr) {
	t.Helper()
	server, err := b.ListenUDP(netip.AddrPortFrom(to, 4443))
	require.NoError(t, err)
	defer server.Close()
	client, err := a.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	defer client.Close()
	_, err = client.WriteToUDPAddrPort([]byte("there"), netip.AddrPortFrom(to, 4443))
	require.NoError(t, err)

	buffer := make([]byte, 64)
	require.NoError(t, server.SetReadDeadline(time.Now().Add(5*time.Second)))
	n, from, err := server.ReadFromUDPAddrPort(buffer)
	require.NoError(t, err)
	require.Equal(t, "there", string(buffer[:n]))
	_, err = server.WriteToUDPAddrPort([]byte("back"), from)
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(5*time.Second)))
	n, from, err = client.ReadFromUDPAddrPort(buffer)
	require.NoError(t, err)
	require.Equal(t, "back", string(buffer[:n]))
	require.Equal(t, to, from.Addr().Unmap())
}

func TestEveryHostReachesTheRelay(t *testing.T) {
	delayed := lab.Symmetric(lab.Conditions{Delay: time.Millisecond, Rate: 100e6})
	for name, topology := range map[string]lab.Topology{
		"two devices":        {Subscribers: 2},
		"one device":         {Subscribers: 2, OneDevice: true},
		"software checksums": {Subscribers: 1, SoftwareChecksums: true},
		"delay and rate":     {Subscribers: 1, Uplink: delayed, Downlink: delayed},
		"duplicates":         {Subscribers: 1, Uplink: lab.Symmetric(lab.Conditions{Duplicate: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			l := labtest.New(t, topology)
			for _, h := range append(l.Subscribers, l.Publisher) {
				facing := l.Relay.Facing(h)
				for _, addr := range []netip.Addr{facing.IPv4.Addr(), facing.IPv6.Addr()} {
					exchange(t, h, l.Relay, addr)
				}
				for _, d := range []lab.Direction{lab.FromHost, lab.ToHost} {
					s, err := h.Devices[0].Link.Stats(d)
					require.NoError(t, err)
					require.Zero(t, s.Failed)
					require.EqualValues(t, 2, s.Packets, fmt.Sprint(s))
				}
			}
		})
	}
}
