package lab_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
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
	require.NoError(t, server.SetReadDeadline(time.Now().Add(time.Minute)))
	n, from, err := server.ReadFromUDPAddrPort(buffer)
	require.NoError(t, err)
	require.Equal(t, "there", string(buffer[:n]))
	_, err = server.WriteToUDPAddrPort([]byte("back"), from)
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Minute)))
	n, from, err = client.ReadFromUDPAddrPort(buffer)
	require.NoError(t, err)
	require.Equal(t, "back", string(buffer[:n]))
	require.Equal(t, to, from.Addr().Unmap())
}

func TestEveryHostReachesEachRelay(t *testing.T) {
	delayed := lab.Conditions{Delay: time.Millisecond, Rate: 100e6}
	for name, topology := range map[string]lab.Topology{
		"two devices":        {Subscribers: 2},
		"one device":         {Subscribers: 2, OneDevice: true},
		"software checksums": {Subscribers: 1, SoftwareChecksums: true},
		"delay and rate":     {Subscribers: 1, Uplink: delayed, Downlink: delayed},
		"duplicates":         {Subscribers: 1, Uplink: lab.Conditions{Duplicate: 1}},
		"three relays":       {Relays: 3, Subscribers: 2, Backbone: delayed},
		"with one device":    {Relays: 2, Subscribers: 2, OneDevice: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := labtest.New(t, topology)
			for _, h := range append(l.Subscribers, l.Publisher) {
				for _, relay := range l.Relays {
					facing := relay.Facing(h)
					for _, addr := range []netip.Addr{facing.IPv4.Addr(), facing.IPv6.Addr()} {
						exchange(t, h, relay, addr)
					}
				}
				for _, d := range []lab.Direction{lab.FromHost, lab.ToHost} {
					s, err := h.Devices[0].Link.Stats(d)
					require.NoError(t, err)
					require.Zero(t, s.Failed)
					require.EqualValues(t, 2*len(l.Relays), s.Packets, fmt.Sprint(s))
				}
			}
		})
	}
}

// TestRelaysReachEachOther sends between each two of three relays: of the links between them, those after the first
// have conditions of their own.
func TestRelaysReachEachOther(t *testing.T) {
	backbone := lab.Conditions{Delay: time.Millisecond}
	l := labtest.New(t, lab.Topology{Relays: 3, Backbone: backbone})
	require.Equal(t, l.Relay, l.Relays[0])
	for i, a := range l.Relays {
		require.Equal(t, lab.RelayHostName(i+1), a.Name)
		for _, b := range l.Relays[:i] {
			require.Equal(t, b.Device("up"), b.Facing(a))
			exchange(t, a, b, b.Facing(a).IPv6.Addr())
			exchange(t, b, a, a.Facing(b).IPv4.Addr())
		}
		s, err := a.Device("up").Link.Stats(lab.ToHost)
		require.NoError(t, err)
		delayed := s.Packets
		if i == 0 {
			delayed = 0
		}
		require.Equal(t, delayed, s.Delayed, a.Name)
	}
	link := l.Relays[1].Device("up").Link
	require.NoError(t, link.Set(lab.FromHost, lab.Conditions{Loss: 1}))
	status, err := l.Status()
	require.NoError(t, err)
	for _, h := range status.Hosts {
		if h.Name == l.Relays[2].Name {
			i := slices.IndexFunc(h.Devices, func(d lab.DeviceStatus) bool { return d.Name == "up" })
			require.Equal(t, backbone, h.Devices[i].FromHost.Conditions)
		}
	}
	_, err = l.Host("relay4")
	require.ErrorContains(t, err, "there are pub, relay, relay2 to relay3, net and ")
}

func TestTopologyLimits(t *testing.T) {
	for want, topology := range map[string]lab.Topology{
		"relays: 17: must be between 0 and 16":                   {Relays: lab.MaxRelays + 1},
		"subscribers: 1001: must be between 0 and 1000":          {Subscribers: lab.MaxSubscribers + 1},
		"subscribers: -1: must be between 0 and 1000":            {Subscribers: -1},
		"uplink: loss: 2: must be between 0% and 100%":           {Uplink: lab.Conditions{Loss: 2}},
		"backbone: mark: 2: must be between 0% and 100%":         {Backbone: lab.Conditions{Mark: 2}},
		"downlink: rate: 1bit: must be between 8kbit and 32gbit": {Downlink: lab.Conditions{Rate: 1}},
	} {
		_, err := lab.New(t.Context(), topology)
		require.EqualError(t, err, "lab: "+want)
	}
}
