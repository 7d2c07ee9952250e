package rtt

import (
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/rtt/attach"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// addWayBack joins two hosts by one more link, named back, by which packets of from come to the first address of to.
func addWayBack(t *testing.T, from, to *lab.Host) {
	t.Helper()
	var there *os.File
	require.NoError(t, from.Do(func() (err error) {
		there, err = os.Open("/proc/thread-self/ns/net")
		return err
	}))
	defer there.Close()
	require.NoError(t, to.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "back"
		if err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: "back", PeerNamespace: netlink.NsFd(there.Fd()),
		}); err != nil {
			return err
		}
		for _, name := range []string{"all", "back"} { // packets may come from where none would be sent to
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/rp_filter", []byte("0"), 0o644); err != nil {
				return err
			}
		}
		return bringUp("back", "172.31.0.1/24")
	}))
	require.NoError(t, from.Do(func() error {
		if err := bringUp("back", "172.31.0.2/24"); err != nil {
			return err
		}
		host := to.Facing(from).IPv4.Addr().AsSlice()
		return netlink.RouteAdd(&netlink.Route{
			Dst: &net.IPNet{IP: host, Mask: net.CIDRMask(32, 32)}, Gw: net.IPv4(172, 31, 0, 1),
		})
	}))
}

// bringUp gives a device an address.
func bringUp(device, address string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, a); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// TestAsymmetricRoutes has a host whose packets leave by one interface, and whose replies arrive by another one. Both
// together measure what each of them cannot.
func TestAsymmetricRoutes(t *testing.T) {
	thorough.Only(t) // an echo was lost on a busy machine
	l := labtest.New(t, lab.Topology{Uplink: lab.Symmetric(lab.Conditions{Delay: 10 * time.Millisecond})})
	addWayBack(t, l.Relay, l.Publisher)
	both := []string{"eth0", "back"}
	for name, cfg := range map[string]MonitorConfig{
		"tc":          {},
		"native XDP":  {Hook: attach.HookXDP, XDPMode: attach.XDPNative},
		"generic XDP": {Hook: attach.HookXDP, XDPMode: attach.XDPGeneric},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Interfaces = both
			require.Empty(t, echoes(t, l.Publisher, l.Publisher, l.Relay, cfg), "each by itself")
			cfg.MergeInterfaces = true
			require.Len(t, echoes(t, l.Publisher, l.Publisher, l.Relay, cfg), 5)
		})
	}
	t.Run("TCP by the way there", func(t *testing.T) {
		cfg := MonitorConfig{TCP: true, RateLimit: -1, IncludeSYN: true}
		alone, merged := cfg, cfg
		alone.Interfaces = both[:1]
		merged.Interfaces, merged.MergeInterfaces = both, true
		end := []func() *reporttest.Sink{measuring(t, l.Publisher, alone), measuring(t, l.Publisher, merged)}
		exchange(t, l.Publisher, l.Relay, 40)
		methods := make(map[report.Method][]time.Duration)
		for _, s := range end[0]().Samples {
			require.True(t, s.OneDirection)
			methods[s.Method] = append(methods[s.Method], s.RTT)
		}
		// The link takes 10 ms. An RTT by timestamps may be too small by a tick.
		require.Len(t, methods[report.MethodHandshake], 1)
		require.GreaterOrEqual(t, methods[report.MethodHandshake][0], 10*time.Millisecond)
		require.NotEmpty(t, methods[report.MethodTimestamp])
		require.GreaterOrEqual(t, slices.Min(methods[report.MethodTimestamp]), 9*time.Millisecond)
		var rtts []time.Duration
		for _, s := range end[1]().Samples {
			require.False(t, s.OneDirection)
			rtts = append(rtts, s.RTT)
		}
		require.NotEmpty(t, rtts)
		t.Logf("handshake %v; by %d timestamps %v in the median; by both directions %v in the median of %d",
			methods[report.MethodHandshake][0], len(methods[report.MethodTimestamp]),
			median(methods[report.MethodTimestamp]), median(rtts), len(rtts))
	})
}
