package rtt

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/rtt/attach"
	"sluice/rtt/internal/wire"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// addMirror gives a host a device that receives the frames passed to write, as from a switch.
func addMirror(t *testing.T, h *lab.Host, device string) (write func(frame []byte)) {
	t.Helper()
	var fd int
	var to unix.SockaddrLinklayer
	require.NoError(t, h.Do(func() (err error) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = device, 9000
		link := &netlink.Veth{LinkAttrs: attrs, PeerName: device + "-switch", PeerMTU: 9000}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		peer, err := netlink.LinkByName(device + "-switch")
		if err != nil {
			return err
		}
		to.Ifindex = peer.Attrs().Index
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetUp(link), netlink.LinkSetUp(peer))
	}))
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return func(frame []byte) { require.NoError(t, unix.Sendto(fd, frame, 0, &to)) }
}

// promiscuity returns how many users a device's promiscuous mode has.
func promiscuity(t *testing.T, h *lab.Host, device string) (n int) {
	t.Helper()
	require.NoError(t, h.Do(func() error {
		d, err := netlink.LinkByName(device)
		if err == nil {
			n = d.Attrs().Promisc
		}
		return err
	}))
	return n
}

// counts returns a monitor's counters by name.
func counts(t *testing.T, m *Monitor) map[string]uint64 {
	c, err := m.Counters()
	require.NoError(t, err)
	n := make(map[string]uint64)
	for _, o := range slices.Concat(c.Outcomes, c.Events) {
		n[o.Name] += o.Count
	}
	return n
}

// vlanOfPings returns the VLAN of the flows of pings.
func vlanOfPings(t *testing.T, m *Monitor) report.VLAN {
	flows, err := m.Flows()
	require.NoError(t, err)
	for _, f := range flows {
		if f.Protocol == "ICMPv6" {
			return f.VLAN
		}
	}
	t.Fatal("no pings")
	return report.VLAN{}
}

// A mirror port brings both directions of other hosts' flows, and taps one each: here with jumbo frames, two VLAN tags,
// and a fragment. Taps together measure what each of them cannot.
func TestMirrorPort(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	ports, taps := make(map[string]func([]byte)), []string{"tap0", "tap1"}
	for _, name := range []string{"mirror", "tap0", "tap1"} {
		ports[name] = addMirror(t, l.Publisher, name)
	}
	jumbo := func(from, to netip.AddrPort, s wire.TCP) []byte {
		s.Flags, s.Timestamps = wire.ACK, true
		return wire.Frame(s.Between(from, to))
	}
	frames := []struct {
		outcome string
		back    int // the direction
		frame   []byte
	}{
		{"tcp", 0, jumbo(alice, bob, wire.TCP{Seq: 1, Val: 100, Length: 8900})},
		{"tcp", 0, jumbo(alice, bob, wire.TCP{Seq: 8901, Val: 101, Length: 8900})},
		{"tcp", 1, jumbo(bob, alice, wire.TCP{Seq: 1, Ack: 17801, Val: 9, Ecr: 101})},
		{"icmp", 0, wire.Frame(wire.Echo{ID: 7, Seq: 1}.Between(echoFrom6, echoTo6), 100, 7)},
		{"icmp", 1, wire.Frame(wire.Echo{ID: 7, Seq: 1, Reply: true}.Between(echoTo6, echoFrom6), 100, 7)},
		{"fragment", 0, wire.Frame(wire.IP{
			From: alice.Addr(), To: bob.Addr(), Protocol: wire.ProtocolTCP, Fragment: 0x2000,
		}.Packet(make([]byte, 1480)))},
	}
	// The device takes the outer tag off before TC.
	both := report.VLAN{ID: 100, Inner: 7}
	vlans := map[string]report.VLAN{"tc": both, "each tap by itself": both}
	for name, cfg := range map[string]MonitorConfig{
		"tc":          {},
		"native XDP":  {Hook: attach.HookXDP, XDPMode: attach.XDPNative},
		"generic XDP": {Hook: attach.HookXDP, XDPMode: attach.XDPGeneric},
		"taps":        {Interfaces: taps, MergeInterfaces: true},
		"taps, native XDP": {
			Interfaces: taps, MergeInterfaces: true, Hook: attach.HookXDP, XDPMode: attach.XDPNative,
		},
		"taps, generic XDP": {
			Interfaces: taps, MergeInterfaces: true, Hook: attach.HookXDP, XDPMode: attach.XDPGeneric,
		},
		"each tap by itself": {Interfaces: taps},
	} {
		t.Run(name, func(t *testing.T) {
			if cfg.Interfaces == nil {
				cfg.Interfaces = []string{"mirror"}
			}
			first, last := cfg.Interfaces[0], cfg.Interfaces[len(cfg.Interfaces)-1]
			cfg.Promiscuous, cfg.Quiet = true, true
			cfg.TCP, cfg.ICMP, cfg.RateLimit, cfg.Sink = true, true, -1, new(reporttest.Sink)
			m := monitorAt(t, l.Publisher, cfg)
			closed := sync.OnceValue(m.Close)
			defer closed()
			require.Equal(t, 1, promiscuity(t, l.Publisher, last))
			want := make(map[string]uint64)
			for _, f := range frames {
				ports[[]string{first, last}[f.back]](f.frame)
				outcome, rtt := f.outcome, f.back
				if first != last && !cfg.MergeInterfaces && f.back == 1 {
					outcome, rtt = outcome+"-no-flow", 0
				}
				want[outcome]++
				want["rtts"] += uint64(rtt)
				// One after the other: the next may be sent on another CPU.
				arrived := func() bool { return counts(t, m)[outcome] == want[outcome] }
				require.Eventually(t, arrived, time.Minute, time.Millisecond, outcome)
			}
			require.Equal(t, want["rtts"], counts(t, m)["rtts"])
			require.Equal(t, vlans[name], vlanOfPings(t, m))
			require.NoError(t, closed())
			require.Zero(t, promiscuity(t, l.Publisher, last))
		})
	}
}
