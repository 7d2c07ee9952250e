//go:build linux

package bpf

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// The ends of the tunnels.
var (
	left, right   = netip.MustParseAddrPort("192.0.2.1:50000"), netip.MustParseAddrPort("192.0.2.2:50000")
	left6, right6 = netip.MustParseAddrPort("[2001:db8::1]:50000"), netip.MustParseAddrPort("[2001:db8::2]:50000")

	inner4, inner6 = segment.Between(client, server), segment.Between(client6, server6)
	lookInto       = func() MonitorSettings { s := everything; s.Tunnels = 1; return s }()
)

func ipIn4(protocol uint8, payload []byte) []byte {
	return wire.IP{From: left.Addr(), To: right.Addr(), Protocol: protocol}.Packet(payload)
}

func ipIn6(protocol uint8, payload []byte) []byte {
	return wire.IP{From: left6.Addr(), To: right6.Addr(), Protocol: protocol}.Packet(payload)
}

func gre(flags, etherType uint16, payload []byte) []byte {
	return wire.GRE{Flags: flags, Type: etherType}.Between(left.Addr(), right.Addr(), payload)
}

// toPort is a datagram to a tunnel's port.
func toPort(port uint16, payload []byte) []byte {
	return wire.UDP(left, withPort(right, port), payload)
}

func vxlan(frame []byte) []byte { return toPort(wire.VXLANPort, wire.VXLAN(7, frame)) }

func gtpu(packet []byte, extensions ...int) []byte {
	return toPort(wire.GTPUPort, wire.GTPU(packet, extensions...))
}

func labelled(payload []byte, labels ...uint32) []byte {
	return wire.Ethernet(wire.TypeMPLS, wire.MPLS(payload, labels...))
}

// nested returns a packet in a number of tunnels of IP in IP.
func nested(times int) []byte {
	packet := inner4
	for range times {
		packet = ipIn4(4, packet)
	}
	return packet
}

// Packets in tunnels, by the outcome that they have if tunnels are looked into.
var tunnelOutcomes = map[string]map[string][]byte{
	"tcp": {
		"IPv4 in IPv4": ipIn4(4, inner4),
		"IPv6 in IPv4": ipIn4(41, inner6),
		"IPv4 in IPv6": ipIn6(4, inner4),
		"IPv6 in IPv6": ipIn6(41, inner6),
		"behind options": wire.IP{
			From: left.Addr(), To: right.Addr(), Protocol: 4, Options: []byte{1, 1, 1, 1},
		}.Packet(inner4),
		"behind an extension": wire.IP{
			From: left6.Addr(), To: right6.Addr(), Next: destination, Options: extension(4, 1),
		}.Packet(inner4),
		"inner extensions":           ipIn4(41, extensions(hopByHop, extension(tcp, 0))),
		"GRE":                        gre(0, wire.TypeIPv4, inner4),
		"GRE over IPv6":              wire.GRE{Type: wire.TypeIPv6}.Between(left6.Addr(), right6.Addr(), inner6),
		"GRE with a key":             gre(0x2000, wire.TypeIPv6, inner6),
		"GRE with all options":       gre(0xb000, wire.TypeIPv4, inner4),
		"GRE of Ethernet":            gre(0, wire.TypeEthernet, wire.Frame(inner4)),
		"GRE of MPLS":                gre(0, wire.TypeMPLS, wire.MPLS(inner4, 3)),
		"ERSPAN":                     gre(0x1000, wire.TypeERSPAN, append(make([]byte, 8), wire.Frame(inner4, 9)...)),
		"ERSPAN type I":              gre(0, wire.TypeERSPAN, wire.Frame(inner6)),
		"EtherIP":                    ipIn4(97, append([]byte{0x30, 0}, wire.Frame(inner4)...)),
		"VXLAN":                      vxlan(wire.Frame(inner4)),
		"VXLAN at the old port":      toPort(8472, wire.VXLAN(7, wire.Frame(inner6))),
		"VXLAN, VLANs":               toPort(wire.VXLANPort, wire.VXLAN(0, wire.Frame(inner4, 5, 6))),
		"VXLAN, PPPoE":               vxlan(wire.PPPoE(1, inner6)),
		"VXLAN, MPLS":                vxlan(labelled(inner4, 1)),
		"GENEVE of Ethernet":         toPort(wire.GENEVEPort, wire.GENEVE(7, wire.TypeEthernet, 0, wire.Frame(inner4))),
		"GENEVE of IPv6":             toPort(wire.GENEVEPort, wire.GENEVE(7, wire.TypeIPv6, 0, inner6)),
		"GENEVE with most options":   toPort(wire.GENEVEPort, wire.GENEVE(7, wire.TypeIPv4, 63, inner4)),
		"GTP-U of IPv4":              gtpu(inner4),
		"GTP-U of IPv6":              gtpu(inner6),
		"GTP-U with an extension":    gtpu(inner4, 1),
		"GTP-U with four extensions": gtpu(inner4, 1, 2, 3, 40),
		"GTP-U with a number": toPort(wire.GTPUPort,
			slices.Concat(edit(wire.GTPU(nil), 0, 0x32), []byte{0, 7, 0, 0x85}, inner4)),
		"MPLS in IP":             ipIn4(137, wire.MPLS(inner4, 3)),
		"GRE in VXLAN":           vxlan(wire.Frame(gre(0, wire.TypeIPv4, inner4))),
		"GTP-U in IP in IP":      ipIn4(4, gtpu(inner4)),
		"sixteen times IP in IP": nested(16),
	},
	"icmp": {"ping in GRE": gre(0, wire.TypeIPv4, wire.Echo{}.Between(client.Addr(), server.Addr()))},
	"dns":  {"in GTP-U": gtpu(asked(0, wire.DNS{}).packet)},
	"ntp":  {"in IP": ipIn4(4, wire.UDP(client, timeServer, wire.NTP{Mode: 3}.Message()))},
	"quic": {"in VXLAN": vxlan(wire.Frame(wire.UDP(client, quicServer, clientToInit.Datagram())))},
	"fragment": {
		"in a tunnel":  ipIn4(4, ip4(func(h *wire.IP) { h.Fragment = 0x2000 })),
		"of a tunnel":  wire.IP{From: left.Addr(), To: right.Addr(), Protocol: 47, Fragment: 1}.Packet(inner4),
		"of IPv6 in 4": ipIn4(41, extensions(fragment, extension(tcp, 0, 0, 8))),
	},
	"tunnel": {
		"L2TP":             ipIn4(115, inner4),
		"PPTP":             gre(0x2001, 0x880b, inner4),
		"GRE with a route": gre(0x4000, wire.TypeIPv4, inner4),
	},
	"tunnel-other": {
		"ARP in VXLAN":         vxlan(wire.Ethernet(wire.TypeARP, make([]byte, 28))),
		"IS-IS in GRE":         gre(0, 0x00fe, make([]byte, 40)),
		"OAM of GENEVE":        toPort(wire.GENEVEPort, wire.GENEVE(7, 0, 0, make([]byte, 40))),
		"no IP in GTP-U":       gtpu(make([]byte, 40)),
		"LCP in VXLAN":         vxlan(edit(wire.PPPoE(1, inner4), 20, 0xc0, 0x21)),
		"no IP behind a label": ipIn4(137, wire.MPLS(bytes.Repeat([]byte{0x50}, 40), 3)),
	},
	"udp-other": {
		"VXLAN without a VNI": toPort(wire.VXLANPort, edit(wire.VXLAN(7, wire.Frame(inner4)), 0, 0)),
		"GENEVE version 1":    toPort(wire.GENEVEPort, edit(wire.GENEVE(7, wire.TypeIPv4, 0, inner4), 0, 0x40)),
		"GTP":                 toPort(wire.GTPUPort, edit(wire.GTPU(inner4), 0, 0x20)),
		"echo of GTP-U":       toPort(wire.GTPUPort, edit(wire.GTPU(nil), 1, 1)),
		"from the port":       wire.UDP(withPort(left, wire.VXLANPort), right, wire.VXLAN(7, wire.Frame(inner4))),
		"no header":           toPort(wire.GTPUPort, nil),
	},
	"tunnel-malformed": {
		"GRE cut":                        ipIn4(47, []byte{0, 0, 8}),
		"EtherIP of another version":     ipIn4(97, append([]byte{0x20, 0}, wire.Frame(inner4)...)),
		"nothing behind a label":         ipIn4(137, wire.MPLS(nil, 3)),
		"label cut":                      ipIn4(137, []byte{0, 0, 1}),
		"Ethernet cut":                   vxlan(make([]byte, 13)),
		"GTP-U without packet":           gtpu(nil),
		"GTP-U options cut":              toPort(wire.GTPUPort, wire.GTPU(nil, 1)[:11]),
		"GTP-U extension of no length":   toPort(wire.GTPUPort, edit(wire.GTPU(inner4, 1), 12, 0)),
		"GTP-U extension beyond the end": toPort(wire.GTPUPort, edit(wire.GTPU(inner4, 1), 12, 255)),
	},
	"tunnel-depth": {
		"seventeen times IP in IP": nested(17),
		"sixteen labels":           ipIn4(137, wire.MPLS(inner4, make([]uint32, 16)...)),
	},
	"ipv4-malformed": {
		"beyond the tunnel's end": edit(append(ipIn4(4, inner4), 1, 2, 3, 4), 20+2, 0, byte(len(inner4)+4)),
		"IPv6 as IPv4":            ipIn4(4, inner6),
	},
	"ipv6-malformed": {"IPv4 as IPv6": gre(0, wire.TypeIPv6, inner4)},
	"pppoe-malformed": {
		"in VXLAN": vxlan(edit(wire.PPPoE(1, inner4), 15, 9)),
	},
}

// Frames with labels, by the outcome that they have if tunnels are looked into.
var labelOutcomes = map[string]map[string][]byte{
	"tcp": {
		"one label":             labelled(inner4, 16),
		"multicast":             wire.Ethernet(0x8848, wire.MPLS(inner4, 16)),
		"three labels, IPv6":    labelled(inner6, 16, 17, 18),
		"a pseudowire":          labelled(append(make([]byte, 4), wire.Frame(inner4, 5)...), 16),
		"behind VLANs":          append(wire.Frame(inner4, 5, 6)[:20], labelled(inner4, 16)[12:]...),
		"a tunnel behind":       labelled(ipIn4(41, inner6), 16),
		"a VLAN of the old tag": edit(wire.Frame(inner4, 5), 12, 0x91, 0),
	},
	"not-ip":           {"no IP": labelled(bytes.Repeat([]byte{0x50}, 20), 16)},
	"tunnel-malformed": {"label cut": wire.Ethernet(wire.TypeMPLS, []byte{0, 0, 1})},
	"tunnel-depth":     {"too many": labelled(inner4, make([]uint32, 16)...)},
}

// A packet without a tunnel has the same outcome whether or not tunnels are looked into.
func TestTunnels(t *testing.T) {
	w := watching(t, lookInto, slices.Concat(linkPrograms, ipPrograms)...)
	others := maps.Clone(ipOutcomes)
	delete(others, "tunnel")
	for i, program := range linkPrograms {
		w.requireOutcomes(program, linkOutcomes, asItIs)
		w.requireOutcomes(program, labelOutcomes, asItIs)
		w.requireOutcomes(program, tunnelOutcomes, inFrame)
		w.requireOutcomes(program, others, inFrame)
		w.requireOutcomes(ipPrograms[i], tunnelOutcomes, asItIs)
	}
}

// Without the setting, nothing is looked into.
func TestTunnelsSwitchedOff(t *testing.T) {
	w := watching(t, everything)
	for _, packet := range [][]byte{
		ipIn4(4, inner4), vxlan(wire.Frame(inner4)), gtpu(inner4),
	} {
		w.show(MonitorProgEgress, 0, wire.Frame(packet))
	}
	w.show(MonitorProgEgress, 0, labelled(inner4, 16))
	require.Equal(t, map[string]uint64{"tunnel": 1, "udp-other": 2, "not-ip": 1}, w.outcomes())
}

// An RTT in a tunnel belongs to the inner ends, and flows with other VNIs are others.
func TestRTTsInTunnels(t *testing.T) {
	const pair = "timestamp 10.0.0.2:80>10.0.0.1:1000"
	between := func(from, to netip.AddrPort) func([]byte) []byte {
		return func(datagram []byte) []byte { return wire.Frame(wire.UDP(from, to, datagram)) }
	}
	there, back := between(left, withPort(right, wire.VXLANPort)), between(right, withPort(left, wire.VXLANPort))
	for name, test := range map[string]struct {
		there, back func(packet []byte) []byte
		merge       uint8
		want        []string
	}{
		"GTP-U": {
			func(p []byte) []byte { return wire.Frame(gtpu(p)) },
			func(p []byte) []byte { return wire.Frame(toPort(wire.GTPUPort, edit(wire.GTPU(p, 1), 4, 9, 9))) },
			0, []string{"15ms +5ms " + pair},
		},
		"VXLAN": {
			func(p []byte) []byte { return there(wire.VXLAN(7, wire.Frame(p))) },
			func(p []byte) []byte { return back(wire.VXLAN(7, wire.Frame(p))) },
			0, []string{"15ms +5ms " + pair + " vni 7"},
		},
		"a VNI for each direction": {
			func(p []byte) []byte { return there(wire.VXLAN(7, wire.Frame(p))) },
			func(p []byte) []byte { return back(wire.VXLAN(8, wire.Frame(p))) },
			0, nil,
		},
		"a VNI for each direction, merged": {
			func(p []byte) []byte { return there(wire.VXLAN(7, wire.Frame(p))) },
			func(p []byte) []byte { return back(wire.VXLAN(8, wire.Frame(p))) },
			1, []string{"15ms +5ms " + pair},
		},
		"a label that the last router but one has removed": {
			func(p []byte) []byte { return labelled(p, 16) },
			func(p []byte) []byte { return wire.Frame(p) },
			0, []string{"15ms +5ms " + pair},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := watching(t, MonitorSettings{Tcp: 1, Tunnels: 1, Vlans: 1, Merge: test.merge})
			w.show(MonitorProgEgress, 0, test.there(data(0, 0, 100).packet))
			w.show(MonitorProgEgress, ms(10), test.there(data(10, 100, 101).packet))
			w.show(MonitorProgEgress, ms(15), test.back(ack(15, 200, 101).packet))
			require.Equal(t, test.want, w.rtts())
		})
	}
}

// Aggregates have the inner addresses, the bytes of the whole frame, and the outermost VLAN.
func TestAggregatesOfTunnels(t *testing.T) {
	w := watching(t, MonitorSettings{
		Tcp: 1, Tunnels: 1, Vlans: 1, Aggregate: 1, Traffic: 1, ByVlan: 1, ByTransport: 1, Ipv4Mask: 0xffffffff,
	})
	inner := wire.Frame(ip4(func(h *wire.IP) { h.ECN = 3 }), 9)
	frame := wire.Frame(vxlan(inner), 5)
	w.show(MonitorProgEgress, 0, frame)
	counted, err := w.m.Counters()
	require.NoError(t, err)
	one := MonitorTraffic{Packets: 1, Bytes: uint64(len(frame))}
	require.Equal(t, one, counted.Transport[MonitorTransportTRANSPORT_TCP])
	require.Equal(t, one, counted.Ecn[3])
	var key MonitorPrefixKey
	var keys []MonitorPrefixKey
	for at := w.m.Maps[MonitorMapPrefixTraffic].Iterate(); at.Next(&key, new([]MonitorTrafficEntry)); {
		keys = append(keys, key)
	}
	address := func(a netip.Addr) uint64 { return uint64(binary.NativeEndian.Uint32(a.AsSlice())) }
	require.ElementsMatch(t, []MonitorPrefixKey{
		{Prefix: address(client.Addr()), Vlan: 5, Transport: uint8(MonitorTransportTRANSPORT_TCP)},
		{Prefix: address(server.Addr()), Vlan: 5, Transport: uint8(MonitorTransportTRANSPORT_TCP)},
	}, keys)
}
