package rtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
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

// echoes pings from one host to another and requires that a Monitor on the given interfaces of either measures it.
func echoes(t *testing.T, at, from, to *lab.Host, cfg MonitorConfig) []report.Sample {
	cfg.ICMP, cfg.RateLimit = true, -1
	end := measuring(t, at, cfg)
	require.Len(t, ping(t, from, to.Facing(from).IPv4.Addr(), 5), 5)
	return end().Samples
}

func TestHooks(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	for name, cfg := range map[string]MonitorConfig{
		"tc":          {},
		"tcx":         {Hook: attach.HookTCX},
		"clsact":      {Hook: attach.HookClsact},
		"native XDP":  {Hook: attach.HookXDP, XDPMode: attach.XDPNative},
		"generic XDP": {Hook: attach.HookXDP, XDPMode: attach.XDPGeneric},
		"any XDP":     {Hook: attach.HookXDP, XDPMode: attach.XDPUnspecified},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Interfaces = []string{"eth0"}
			for _, s := range echoes(t, l.Publisher, l.Publisher, l.Relay, cfg) {
				require.False(t, s.OnEgress, "the reply arrives")
				require.Empty(t, s.Interface, "the only one")
			}
			cfg.Interfaces, cfg.IncludeLocal = []string{"up"}, true
			samples := echoes(t, l.Relay, l.Publisher, l.Relay, cfg)
			require.Len(t, samples, 5, "this host's own delay")
			for _, s := range samples {
				require.True(t, s.OnEgress, "the reply leaves")
			}
			cfg.IncludeLocal = false
			require.Empty(t, echoes(t, l.Relay, l.Publisher, l.Relay, cfg), "only on request")
			require.Empty(t, leftovers(t, l.Relay, "up"), "detached")
		})
	}
}

// TestBesideOthers has a program of others, which ends the chain for each arriving packet.
func TestBesideOthers(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	other, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0 /* TCX_PASS */), asm.Return()},
	})
	require.NoError(t, err)
	defer other.Close()
	var attached link.Link
	require.NoError(t, l.Publisher.Do(func() error {
		device, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		attached, err = link.AttachTCX(link.TCXOptions{
			Interface: device.Attrs().Index, Program: other, Attach: ebpf.AttachTCXIngress,
		})
		return err
	}))
	defer attached.Close()
	require.Len(t, echoes(t, l.Publisher, l.Publisher, l.Relay, MonitorConfig{Interfaces: []string{"eth0"}}), 5)
}

// leftovers are the filters of the clsact qdisc of a device.
func leftovers(t *testing.T, h *lab.Host, device string) (names []string) {
	require.NoError(t, h.Do(func() error {
		d, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			filters, err := netlink.FilterList(d, parent)
			if err != nil {
				return err
			}
			for _, f := range filters {
				names = append(names, f.Type())
			}
		}
		return nil
	}))
	return names
}

func TestSeveralInterfaces(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	samples := echoes(t, l.Relay, l.Relay, l.Publisher, MonitorConfig{Interfaces: []string{"up", "down"}})
	samples = append(samples, echoes(t, l.Relay, l.Relay, l.Subscribers[0], MonitorConfig{
		Interfaces: []string{"up", "down"},
	})...)
	var names []string
	for _, s := range samples {
		names = append(names, s.Interface)
	}
	require.Equal(t, strings.Fields("up up up up up down down down down down"), names)
	merged := MonitorConfig{Interfaces: []string{"up", "down"}, MergeInterfaces: true}
	for _, s := range echoes(t, l.Relay, l.Relay, l.Publisher, merged) {
		require.Empty(t, s.Interface)
	}
}

// retransmitted is how many TCP segments a host has sent again.
func retransmitted(t *testing.T, h *lab.Host) (n uint32) {
	require.NoError(t, h.Do(func() error {
		b, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		_, values, _ := strings.Cut(string(b), "\nTcp: ")  // the names
		_, values, _ = strings.Cut(values, "\nTcp: ")      // the values
		_, err = fmt.Sscan(strings.Fields(values)[11], &n) // RetransSegs
		return err
	}))
	return n
}

// On the loopback device each packet leaves and arrives, but counts once. A busy machine sends some again.
func TestLoopback(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	h := l.Publisher
	end := measuring(t, h, MonitorConfig{
		Interfaces: []string{"lo"}, ICMP: true, TCP: true, RateLimit: -1, IncludeSYN: true,
	})
	require.Len(t, ping(t, h, netip.MustParseAddr("127.0.0.1"), 5), 5)
	exchange(t, h, 20)
	got, again := end(), retransmitted(t, h)
	methods := make(map[report.Method]int)
	for _, s := range got.Samples {
		methods[s.Method]++
		require.LessOrEqual(t, s.Retransmissions, again)
	}
	require.Equal(t, 5, methods[report.MethodEcho])
	require.NotZero(t, methods[report.MethodTimestamp])
}

// A TUN device has no link header.
func TestDeviceWithoutLinkHeader(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	for _, hook := range []attach.Hook{attach.HookTC, attach.HookClsact, attach.HookXDP} {
		var tun *netlink.Tuntap
		require.NoError(t, l.Publisher.Do(func() error {
			tun = &netlink.Tuntap{
				LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_NO_PI,
				Queues: 1,
			}
			if err := netlink.LinkAdd(tun); err != nil {
				return err
			}
			return netlink.LinkSetUp(tun)
		}))
		file := tun.Fds[0]
		end := measuring(t, l.Publisher, MonitorConfig{
			Interfaces: []string{"tun0"}, ICMP: true, RateLimit: -1, IncludeLocal: true, Hook: hook,
			XDPMode: attach.XDPGeneric,
		})
		// Arriving request and reply, as if the device were in the middle.
		for _, packet := range [][]byte{
			wire.Echo{ID: 1, Seq: 1}.Between(echoFrom4, echoTo4),
			wire.Echo{ID: 1, Seq: 1, Reply: true}.Between(echoTo4, echoFrom4),
			wire.Echo{ID: 2, Seq: 1}.Between(echoFrom6, echoTo6),
			wire.Echo{ID: 2, Seq: 1, Reply: true}.Between(echoTo6, echoFrom6),
		} {
			_, err := file.Write(packet)
			require.NoError(t, err)
		}
		got := end()
		require.Len(t, got.Samples, 2, hook)
		require.Equal(t, "ICMPv6", got.Samples[1].Protocol)
		require.NoError(t, file.Close())
		require.NoError(t, l.Publisher.Do(func() error { return ignoreMissing(netlink.LinkDel(tun)) }))
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// starting returns the error with which New fails inside a host.
func starting(t *testing.T, h *lab.Host, cfg MonitorConfig) error {
	cfg.Sink = new(reporttest.Sink)
	var failed error
	require.NoError(t, h.Do(func() error {
		m, err := New(cfg)
		if err == nil {
			return m.Close()
		}
		failed = err
		return nil
	}))
	return failed
}

func TestClearErrors(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	require.EqualError(t, starting(t, l.Publisher, MonitorConfig{Interfaces: []string{"eth7"}}),
		`no interface "eth7"; there are: lo, eth0`)
	require.EqualError(t, starting(t, l.Publisher, MonitorConfig{}), "no interface to watch; there are: lo, eth0")

	first := monitorAt(t, l.Publisher, MonitorConfig{
		Interfaces: []string{"eth0"}, Hook: attach.HookXDP, Sink: new(reporttest.Sink),
	})
	require.EqualError(t, starting(t, l.Publisher, MonitorConfig{Interfaces: []string{"eth0"}, Hook: attach.HookXDP}),
		"attach to eth0: another XDP program is there; use the tc hook: "+
			"failed to attach link: create link: device or resource busy")
	require.NoError(t, starting(t, l.Publisher, MonitorConfig{
		Interfaces: []string{"eth0", "eth0"},
	}), "TCX has room for several, and once is enough")
	require.NoError(t, first.Close())
}

// Without capabilities, one line names the missing ones. The thread that gives them up ends with its goroutine.
func TestMissingCapabilities(t *testing.T) {
	requireKernel(t)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			failed <- err
			return
		}
		_, err := New(MonitorConfig{Interfaces: []string{"lo"}, Sink: new(reporttest.Sink)})
		failed <- err
	}()
	require.EqualError(t, <-failed,
		"load BPF programs: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: operation not permitted")
}

func TestInterfaceDisappears(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	require.NoError(t, l.Publisher.Do(func() error {
		for _, name := range []string{"one", "two"} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = name
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + "-peer"}); err != nil {
				return err
			}
		}
		return nil
	}))
	var log bytes.Buffer
	var got reporttest.Sink
	m := monitorAt(t, l.Publisher, MonitorConfig{
		Interfaces: []string{"one", "two"}, Sink: &got, Hook: attach.HookClsact, Aggregate: time.Hour,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
	})
	ended := make(chan error)
	go func() { ended <- m.Run(context.Background()) }()
	for _, name := range []string{"one", "two"} {
		require.NoError(t, l.Publisher.Do(func() error {
			d, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return netlink.LinkDel(d)
		}))
	}
	require.EqualError(t, <-ended, "interface two disappeared: nothing is left to watch")
	require.NoError(t, m.Close())
	require.Len(t, got.Intervals, 1, "the last one")
	const warning = "level=WARN msg=\"interface disappeared; the others are still watched\" interface=one\n"
	require.Equal(t, warning, log.String())
}

// TestManyChangesOfInterfaces has more of them, before the monitor looks, than a socket has room for by default.
func TestManyChangesOfInterfaces(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	var got reporttest.Sink
	m := monitorAt(t, l.Publisher, MonitorConfig{Interfaces: []string{"eth0"}, ICMP: true, Sink: &got})
	require.NoError(t, l.Publisher.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "one"
		other := &netlink.Veth{LinkAttrs: attrs, PeerName: "one-peer"}
		err := netlink.LinkAdd(other)
		for range 500 {
			err = errors.Join(err, netlink.LinkSetUp(other), netlink.LinkSetDown(other))
		}
		return err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	require.Len(t, ping(t, l.Publisher, l.Relay.Facing(l.Publisher).IPv4.Addr(), 1), 1)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, m.Close())
	require.Len(t, got.Samples, 1)
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// The aggregates of the last interval are reported, and prefixes without traffic are forgotten.
func TestAggregationOfInterfaces(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	end := measuring(t, l.Publisher, MonitorConfig{
		Interfaces: []string{"eth0"}, ICMP: true, RateLimit: -1, Aggregate: time.Hour, IPv4Prefix: 31,
		AggregateBy: report.Keys{Interface: true, Protocol: true},
	})
	require.Len(t, ping(t, l.Publisher, l.Relay.Devices[0].IPv4.Addr(), 10), 10)
	got := end()
	require.Empty(t, got.Samples)
	require.Empty(t, got.Flows)
	require.Len(t, got.Intervals, 1)
	i := got.Intervals[0]
	var relay *report.Prefix
	for n := range i.Prefixes {
		p := &i.Prefixes[n]
		require.Equal(t, "eth0", p.Interface)
		if p.Contains(l.Relay.Devices[0].IPv4.Addr()) && p.Protocol == "ICMP" {
			relay = p
		}
	}
	require.EqualValues(t, 10, relay.RTT.Count)
	require.EqualValues(t, 10, relay.Received.Other.Packets)
	require.EqualValues(t, 10*98, relay.Sent.Other.Bytes)
	require.Contains(t, i.Transports, report.NamedTraffic{
		Name: "ICMP", Traffic: report.Traffic{Packets: 20, Bytes: 20 * 98},
	})
}

func TestFlows(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	m := monitorAt(t, l.Publisher, MonitorConfig{
		Interfaces: []string{"eth0"}, ICMP: true, TCP: true, RateLimit: -1, Quiet: true, Sink: new(reporttest.Sink),
	})
	defer m.Close()
	require.Len(t, ping(t, l.Publisher, l.Relay.Devices[0].IPv4.Addr(), 10), 10)
	flows, err := m.Flows()
	require.NoError(t, err)
	require.Len(t, flows, 1)
	f := flows[0]
	require.Equal(t, l.Relay.Devices[0].IPv4.Addr(), f.Source.Addr())
	require.Equal(t, report.Traffic{Packets: 10, Bytes: 560}, f.Sent)
	require.Equal(t, report.Traffic{Packets: 10, Bytes: 560}, f.Received)
	require.NotZero(t, f.MinRTT)
	require.LessOrEqual(t, f.MinRTT, f.SmoothedRTT)
	loss, known := f.Loss()
	require.True(t, known)
	require.Zero(t, loss)
	counters, err := m.Counters()
	require.NoError(t, err)
	require.EqualValues(t, 1, counters.Flows)
	require.Contains(t, counters.Outcomes, report.NamedCount{Name: "icmp", Count: 20})
	require.Contains(t, counters.Events, report.NamedCount{Name: "rtts", Count: 10})
	require.Contains(t, counters.Events, report.NamedCount{Name: "events", Count: 0})
}
