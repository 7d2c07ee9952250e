//go:build linux

package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

var (
	client6 = netip.MustParseAddrPort("[fd00::1]:1000")
	server6 = netip.MustParseAddrPort("[fd00::2]:80")
	segment = wire.TCP{Seq: 1, Flags: wire.ACK, Timestamps: true, Val: 1, Length: 10}

	everything   = MonitorSettings{Tcp: 1, Icmp: 1, Dns: 1, Quic: 1, Ntp: 1, Stun: 1, Vlans: 1}
	linkPrograms = []string{MonitorProgIngress, MonitorProgEgress, MonitorProgXdpIngress}
	ipPrograms   = []string{MonitorProgIngressIp, MonitorProgEgressIp, MonitorProgXdpIngressIp}
)

// ip4 and ip6 return a packet after a change to its header.
func ip4(change func(*wire.IP)) []byte {
	h := wire.IP{From: client.Addr(), To: server.Addr(), Protocol: wire.ProtocolTCP}
	change(&h)
	return h.Packet(segment.Segment(client.Port(), server.Port()))
}

func ip6(change func(*wire.IP)) []byte {
	h := wire.IP{From: client6.Addr(), To: server6.Addr(), Protocol: wire.ProtocolTCP}
	change(&h)
	return h.Packet(segment.Segment(client6.Port(), server6.Port()))
}

// edit changes bytes of a packet.
func edit(packet []byte, at int, with ...byte) []byte {
	copy(packet[at:], with)
	return packet
}

// extension is an IPv6 extension header of 8 × (1 + more) bytes.
func extension(next uint8, more int, body ...byte) []byte {
	return append(append([]byte{next, byte(more)}, body...), make([]byte, 6+8*more-len(body))...)
}

func extensions(first uint8, headers ...[]byte) []byte {
	return ip6(func(h *wire.IP) { h.Next, h.Options = first, slices.Concat(headers...) })
}

const (
	hopByHop, routing, fragment, ah, destination = 0, 43, 44, 51, 60
	tcp                                          = wire.ProtocolTCP
)

func chain(n int) []byte {
	headers := make([][]byte, n)
	for i := range headers {
		headers[i] = extension(destination, 0)
	}
	headers[n-1] = extension(tcp, 0)
	return extensions(destination, headers...)
}

// Packets by the outcome they must have.
var ipOutcomes = map[string]map[string][]byte{
	"tcp": {
		"IPv4":                  segment.Between(client, server),
		"IPv6":                  segment.Between(client6, server6),
		"IPv4 options":          ip4(func(h *wire.IP) { h.Options = []byte{1, 1, 1, 1, 148, 4, 0, 0} }),
		"IPv4 don't fragment":   ip4(func(h *wire.IP) { h.Fragment = 0x4000 }),
		"padding after IPv4":    append(segment.Between(client, server), 0, 0, 0, 0, 0, 0),
		"padding after IPv6":    append(segment.Between(client6, server6), 0, 0, 0, 0, 0, 0),
		"hop-by-hop options":    extensions(hopByHop, extension(tcp, 0)),
		"destination options":   extensions(destination, extension(tcp, 3)),
		"a finished route":      extensions(routing, extension(tcp, 2, 4, 0)),
		"an atomic fragment":    extensions(fragment, extension(tcp, 0)),
		"authentication header": extensions(ah, append([]byte{tcp, 4}, make([]byte, 22)...)),
		"four extensions": extensions(hopByHop, extension(destination, 0), extension(routing, 0),
			extension(ah, 1), append([]byte{tcp, 1}, make([]byte, 10)...)),
		"six extensions": chain(6),
	},
	"icmp": {
		"IPv4": wire.Echo{}.Between(client.Addr(), server.Addr()),
		"IPv6": wire.Echo{}.Between(client6.Addr(), server6.Addr()),
	},
	"dns": {
		"IPv4": asked(0, wire.DNS{}).packet, "IPv6": wire.UDP(client6, withPort(server6, 53), wire.DNS{}.Message()),
	},
	"ntp": {
		"IPv4": wire.UDP(client, timeServer, wire.NTP{Mode: 3}.Message()),
		"IPv6": wire.UDP(client6, withPort(server6, 123), wire.NTP{Mode: 3}.Message()),
	},
	"stun": {
		"IPv4": wire.UDP(client, server, wire.STUN{Type: 1}.Message()),
		"IPv6": wire.UDP(client6, server6, wire.STUN{Type: 1}.Message()),
	},
	"quic": {
		"IPv4": wire.UDP(client, quicServer, clientToInit.Datagram()),
		"IPv6": wire.UDP(client6, server6, clientToInit.Datagram()),
	},
	"tunnel": tunnels(),
	"other-protocol": {
		"SCTP":               ip4(func(h *wire.IP) { h.Protocol = 132 }),
		"ESP":                ip6(func(h *wire.IP) { h.Protocol = 50 }),
		"no next header":     ip6(func(h *wire.IP) { h.Protocol = 59 }),
		"ICMPv6 in IPv4":     ip4(func(h *wire.IP) { h.Protocol = 58 }),
		"ICMP in IPv6":       ip6(func(h *wire.IP) { h.Protocol = 1 }),
		"hop-by-hop in IPv4": ip4(func(h *wire.IP) { h.Protocol = 0 }),
	},
	"fragment": {
		"first, IPv4":          ip4(func(h *wire.IP) { h.Fragment = 0x2000 }),
		"middle, IPv4":         ip4(func(h *wire.IP) { h.Fragment = 0x2001 }),
		"last, IPv4":           ip4(func(h *wire.IP) { h.Fragment = 0x1fff }),
		"first, IPv6":          extensions(fragment, extension(tcp, 0, 0, 1)),
		"last, IPv6":           extensions(fragment, extension(tcp, 0, 0, 8)),
		"behind options, IPv6": extensions(destination, extension(fragment, 0), extension(tcp, 0, 0, 8)),
	},
	"source-routed": {"IPv6": extensions(routing, extension(tcp, 2, 4, 1))},
	"ipv4-malformed": {
		"header length below 20":      edit(segment.Between(client, server), 0, 0x44),
		"header length beyond total":  edit(segment.Between(client, server), 0, 0x4f, 0, 0, 30),
		"total length below header":   edit(segment.Between(client, server), 2, 0, 19),
		"total length zero":           edit(segment.Between(client, server), 2, 0, 0),
		"total length beyond the end": edit(segment.Between(client, server), 2, 1, 0),
	},
	"ipv6-malformed": {
		"payload beyond the end":       edit(segment.Between(client6, server6), 4, 1, 0),
		"extension beyond the payload": edit(extensions(hopByHop, extension(tcp, 0)), 41, 30),
		"extension cut": edit(wire.IP{
			From: client6.Addr(), To: server6.Addr(), Protocol: hopByHop,
		}.Packet([]byte{6, 0, 0, 0}), 4, 0, 4),
	},
	"ipv6-extensions": {"seven": chain(7)},
	"tcp-malformed": {
		"cut":                       ip4(func(*wire.IP) {})[:20+19],
		"payload length zero, IPv6": edit(segment.Between(client6, server6), 4, 0, 0),
		"offset below 5":            edit(segment.Between(client, server), 20+12, 0x40),
		"offset beyond the end":     edit(wire.TCP{}.Between(client, server), 20+12, 0x60),
	},
	"tcp-options-malformed": {
		"length 0":          edit(wire.TCP{Options: []byte{2, 0, 1, 1}}.Between(client, server), 0),
		"length 1":          wire.TCP{Options: []byte{1, 2, 1, 1}}.Between(client, server),
		"beyond the header": wire.TCP{Options: []byte{1, 1, 8, 10}}.Between(client, server),
		"no length":         wire.TCP{Options: []byte{1, 1, 1, 2}}.Between(client, server),
	},
	"udp-malformed": {
		"length below 8": edit(wire.UDP(client, server, make([]byte, 9)), 20+4, 0, 7),
		"length beyond":  edit(wire.UDP(client, server, make([]byte, 9)), 20+4, 0, 99),
	},
	"icmp-malformed": {"cut": shorten(wire.Echo{}.Between(client.Addr(), server.Addr()), 4)},
}

// shorten cuts a packet, and its IPv4 total length with it.
func shorten(packet []byte, by int) []byte {
	packet = packet[:len(packet)-by]
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
	return packet
}

func init() {
	ipOutcomes["tcp-malformed"]["cut"] = shorten(wire.TCP{}.Between(client, server), 1)
}

func tunnels() map[string][]byte {
	packets := make(map[string][]byte)
	for _, protocol := range []uint8{4, 41, 47, 97, 115, 137} {
		inner := segment.Between(client, server)
		packets[fmt.Sprint("protocol ", protocol, " in IPv4")] = wire.IP{
			From: client.Addr(), To: server.Addr(), Protocol: protocol,
		}.Packet(inner)
		packets[fmt.Sprint("protocol ", protocol, " in IPv6")] = wire.IP{
			From: client6.Addr(), To: server6.Addr(), Protocol: protocol,
		}.Packet(inner)
	}
	return packets
}

// Frames by the outcome they must have; only devices with a link header have them.
var linkOutcomes = map[string]map[string][]byte{
	"tcp": {
		"untagged":    wire.Frame(segment.Between(client, server)),
		"one tag":     wire.Frame(segment.Between(client, server), 5),
		"two tags":    wire.Frame(segment.Between(client6, server6), 5, 6),
		"PPPoE, IPv4": wire.PPPoE(1, segment.Between(client, server)),
		"PPPoE, IPv6": wire.PPPoE(1, segment.Between(client6, server6)),
		"PPPoE behind VLAN": slices.Concat(wire.Frame(segment.Between(client, server), 7)[:16],
			wire.PPPoE(1, segment.Between(client, server))[12:]),
	},
	"not-ip": {
		"ARP":       wire.Ethernet(wire.TypeARP, make([]byte, 28)),
		"802.3":     wire.Ethernet(100, make([]byte, 100)),
		"PPPoE LCP": edit(wire.PPPoE(1, segment.Between(client, server)), 20, 0xc0, 0x21),
	},
	"vlan-depth":     {"three tags": wire.Frame(segment.Between(client, server), 1, 2, 3)},
	"link-truncated": {"VLAN tag cut": wire.Ethernet(wire.TypeVLAN, []byte{0, 1, 8})},
	"pppoe-malformed": {
		"discovery code": edit(wire.PPPoE(1, segment.Between(client, server)), 15, 9),
		"cut":            wire.Ethernet(wire.TypePPPoE, []byte{0x11, 0, 0}),
	},
	"ipv4-malformed": {
		"IPv6 behind the EtherType of IPv4": edit(wire.Frame(segment.Between(client6, server6)), 12, 8, 0),
	},
	"ipv6-malformed": {
		"IPv4 behind the EtherType of IPv6": edit(wire.Frame(segment.Between(client, server)), 12, 0x86, 0xdd),
	},
}

func TestOutcomes(t *testing.T) {
	w := watching(t, everything, slices.Concat(linkPrograms, ipPrograms)...)
	for i, program := range linkPrograms {
		w.requireOutcomes(program, linkOutcomes, asItIs)
		w.requireOutcomes(program, ipOutcomes, inFrame)
		w.requireOutcomes(ipPrograms[i], ipOutcomes, asItIs)
	}
}

func asItIs(frame []byte) []byte { return bytes.Clone(frame) }

func inFrame(packet []byte) []byte { return wire.Frame(packet) }

// requireOutcomes shows the packets of a table, and requires that each has its outcome.
func (w *watch) requireOutcomes(program string, table map[string]map[string][]byte, frame func([]byte) []byte) {
	w.t.Helper()
	for outcome, packets := range table {
		for name, packet := range packets {
			before := w.outcomes()
			w.show(program, 0, frame(packet))
			before[outcome]++
			require.Equal(w.t, before, w.outcomes(), "%s on %s: %s", name, program, outcome)
		}
	}
}

// everyFrame lists the frames of the tables.
func everyFrame() (frames [][]byte) {
	for _, table := range []map[string]map[string][]byte{ipOutcomes, tunnelOutcomes} {
		for _, packets := range table {
			for _, packet := range packets {
				frames = append(frames, wire.Frame(packet))
			}
		}
	}
	for _, table := range []map[string]map[string][]byte{linkOutcomes, labelOutcomes} {
		for _, list := range table {
			frames = slices.AppendSeq(frames, maps.Values(list))
		}
	}
	return frames
}

// Every packet passes and has one outcome, wherever it is cut.
func TestTruncationAtEveryByte(t *testing.T) {
	w := watching(t, lookInto, linkPrograms...)
	var shown uint64
	for _, frame := range everyFrame() {
		for n := minFrame; n <= min(len(frame), 150); n++ {
			program := MonitorProgXdpIngress
			// Program.Run itself refuses IP headers that are cut, to programs at TC.
			if n >= 14+40 {
				program = linkPrograms[n%len(linkPrograms)]
			}
			w.show(program, 0, bytes.Clone(frame[:n]))
			shown++
		}
	}
	require.Equal(t, shown, w.exits())
}

// exits is the number of packets that have left.
func (w *watch) exits() (n uint64) {
	c, err := w.m.Counters()
	require.NoError(w.t, err)
	require.Zero(w.t, c.Outcome[MonitorOutcomeOUTCOME_CONTINUE])
	for _, count := range c.Outcome {
		n += count
	}
	return n
}

// Random changes to well-formed packets: every packet passes, unchanged, with one outcome.
func TestMutatedPackets(t *testing.T) {
	programs := slices.Concat(linkPrograms, ipPrograms)
	w := watching(t, lookInto, programs...)
	rng := rand.New(rand.NewPCG(1, 2))
	frames := everyFrame()
	const rounds = 20000
	for i := range rounds {
		frame := bytes.Clone(frames[rng.IntN(len(frames))])
		for range 1 + rng.IntN(4) {
			frame[rng.IntN(min(len(frame), 100))] = byte(rng.Uint32())
		}
		program := w.m.Programs[programs[i%len(programs)]]
		out := make([]byte, len(frame)+256)
		require.NoError(t, w.m.SetClock(uint64(epoch)+uint64(i), len(frame)))
		verdict, err := program.Run(&ebpf.RunOptions{Data: frame, DataOut: out})
		require.NoError(t, err)
		require.Equal(t, verdicts[program.Type()], int32(verdict))
		require.True(t, bytes.HasPrefix(out, frame), "a packet must not change")
	}
	require.EqualValues(t, rounds, w.exits())
}

func TestVLANsTellFlowsApart(t *testing.T) {
	for _, test := range []struct {
		settings MonitorSettings
		flows    uint64
	}{{MonitorSettings{Vlans: 1}, 4}, {MonitorSettings{Vlans: 1, Merge: 1}, 1}, {MonitorSettings{}, 1}} {
		test.settings.Tcp = 1
		w := watching(t, test.settings)
		for _, tags := range [][]uint16{nil, {5}, {6, 5}, {5, 9}, {0x2005}, {0, 5}} { // the last two have a priority
			w.show(MonitorProgEgress, 0, wire.Frame(segment.Between(client, server), tags...))
		}
		require.Equal(t, test.flows, w.tally(MonitorTallyTALLY_FLOWS_CREATED))
	}
}

func TestTrafficIsCountedByTransport(t *testing.T) {
	w := watching(t, MonitorSettings{Traffic: 1})
	frames := map[MonitorTransport][]byte{
		MonitorTransportTRANSPORT_NOT_IP: wire.Ethernet(wire.TypeARP, make([]byte, 28)),
		MonitorTransportTRANSPORT_TCP:    wire.Frame(segment.Between(client, server)),
		MonitorTransportTRANSPORT_UDP:    wire.Frame(wire.UDP(client, server, make([]byte, 100))),
		MonitorTransportTRANSPORT_ICMP:   wire.Frame(wire.Echo{}.Between(client.Addr(), server.Addr())),
		MonitorTransportTRANSPORT_ICMPV6: wire.Frame(wire.Echo{}.Between(client6.Addr(), server6.Addr())),
		MonitorTransportTRANSPORT_OTHER:  wire.Frame(ip4(func(h *wire.IP) { h.Protocol = 132 })),
	}
	for _, f := range frames {
		w.show(MonitorProgEgress, 0, f)
	}
	counted, err := w.m.Counters()
	require.NoError(t, err)
	for transport, f := range frames {
		require.Equal(t, MonitorTraffic{Packets: 1, Bytes: uint64(len(f))}, counted.Transport[transport], transport)
	}
	require.EqualValues(t, 5, counted.Ecn[0].Packets, "ARP has no ECN")
}
