package lab

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab/bpf"
	"sluice/lab/measure"
	"sluice/lab/netns"
	"sluice/lab/wire"
)

const (
	next     = bpf.LinkVerdictVERDICT_NEXT
	drop     = bpf.LinkVerdictVERDICT_DROP
	redirect = bpf.LinkVerdictVERDICT_REDIRECT
)

// loopback is the device of a test run, in a namespace of its own.
const loopback = 1

var (
	hostMAC  = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	relayMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

func requirePermission(t testing.TB) {
	t.Helper()
	if err := Permitted(); err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
}

// programs loads the programs of links into a fresh namespace.
func programs(t *testing.T) (*bpf.LinkObjects, *netns.Namespace) {
	t.Helper()
	requirePermission(t)
	objects := new(bpf.LinkObjects)
	require.NoError(t, bpf.LoadLinkObjects(objects, nil))
	t.Cleanup(func() { objects.Close() })
	ns, err := netns.New()
	require.NoError(t, err)
	t.Cleanup(ns.Close)
	require.NoError(t, ns.Up("lo"))
	return objects, ns
}

// run runs a program on a frame and returns verdict, frame and mark.
func run(t *testing.T, ns *netns.Namespace, program *ebpf.Program, frame []byte, mark uint32) (
	verdict bpf.LinkVerdict, out []byte, markOut uint32,
) {
	t.Helper()
	// struct __sk_buff: mark is its third word, ifindex its eleventh.
	context := make([]byte, 192)
	binary.NativeEndian.PutUint32(context[8:], mark)
	binary.NativeEndian.PutUint32(context[40:], loopback)
	contextOut := make([]byte, len(context))
	opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: context,
		ContextOut: contextOut}
	require.NoError(t, ns.Do(func() error {
		value, err := program.Run(&opts)
		verdict = bpf.LinkVerdict(value)
		return err
	}))
	return verdict, opts.DataOut, binary.NativeEndian.Uint32(contextOut[8:])
}

func build(t testing.TB, parts ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	require.NoError(t, gopacket.SerializeLayers(buffer,
		gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, parts...))
	return buffer.Bytes()
}

func ethernet(to net.HardwareAddr, typ layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: hostMAC, DstMAC: to, EthernetType: typ}
}

func ip4(proto layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Protocol: proto, SrcIP: net.IP{198, 19, 1, 1},
		DstIP: net.IP{198, 19, 0, 1}}
}

func ip6(proto layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: proto,
		SrcIP: net.ParseIP("2001:2:0:2::101"), DstIP: net.ParseIP("2001:2:0:2::1")}
}

func udp(under gopacket.NetworkLayer, from, to uint16) *layers.UDP {
	u := &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
	_ = u.SetNetworkLayerForChecksum(under)
	return u
}

func udp4(t testing.TB, from, to uint16, payload []byte) []byte {
	ip := ip4(layers.IPProtocolUDP)
	return build(t, ethernet(relayMAC, layers.EthernetTypeIPv4), ip, udp(ip, from, to), gopacket.Payload(payload))
}

func udp6(t testing.TB, from, to uint16, payload []byte) []byte {
	ip := ip6(layers.IPProtocolUDP)
	return build(t, ethernet(relayMAC, layers.EthernetTypeIPv6), ip, udp(ip, from, to), gopacket.Payload(payload))
}

func icmp6(t testing.TB, typ uint8) []byte {
	ip, icmp := ip6(layers.IPProtocolICMPv6), &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, 0)}
	_ = icmp.SetNetworkLayerForChecksum(ip)
	return build(t, ethernet(relayMAC, layers.EthernetTypeIPv6), ip, icmp, gopacket.Payload(make([]byte, 8)))
}

// monotonic returns the time on the clock of bpf_ktime_get_ns.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano()
}

func counted(t *testing.T, objects *bpf.LinkObjects, lane uint32) (sum [bpf.LinkEventEVENTS]uint64) {
	t.Helper()
	var perCPU []bpf.LinkEvents
	require.NoError(t, objects.Counters.Lookup(lane, &perCPU))
	for _, cpu := range perCPU {
		for e, n := range cpu.Count {
			sum[e] += n
		}
	}
	return sum
}

func TestLinkPrograms(t *testing.T) {
	payload := bytes.Repeat([]byte{0xab}, 100)
	options := ip4(layers.IPProtocolUDP)
	options.Options = []layers.IPv4Option{{OptionType: 1, OptionLength: 1}, {OptionType: 1, OptionLength: 1},
		{OptionType: 1, OptionLength: 1}, {OptionType: 0, OptionLength: 1}}
	withOptions := func(from uint16) []byte {
		return build(t, ethernet(relayMAC, layers.EthernetTypeIPv4), options, udp(options, from, 4443),
			gopacket.Payload(payload))
	}
	fragment := ip4(layers.IPProtocolUDP)
	fragment.FragOffset = 100
	second := build(t, ethernet(relayMAC, layers.EthernetTypeIPv4), fragment, gopacket.Payload(payload))
	tcp := build(t, ethernet(relayMAC, layers.EthernetTypeIPv4), ip4(layers.IPProtocolTCP), gopacket.Payload(payload))
	unsummed := udp4(t, 40000, 4443, payload)
	binary.BigEndian.PutUint16(unsummed[14+20+6:], 0)
	unsummedAfter := bytes.Clone(unsummed)
	binary.BigEndian.PutUint16(unsummedAfter[14+20:], 40000^5)
	arp := build(t, ethernet(relayMAC, layers.EthernetTypeARP), gopacket.Payload(make([]byte, 28)))
	multicast := build(t, ethernet(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, layers.EthernetTypeIPv6),
		ip6(layers.IPProtocolUDP), gopacket.Payload(payload))
	const always = 1 << 32
	const fromHost, toHost = loopback<<1 | uint32(FromHost), loopback<<1 | uint32(ToHost)
	done := func(lane uint32) uint32 { return uint32(bpf.LinkLaneLANE_DONE) | lane }
	plain := udp4(t, 40000, 4443, payload)

	type events map[bpf.LinkEvent]uint64
	passed := events{bpf.LinkEventPACKETS: 1}
	exempt := events{bpf.LinkEventEXEMPT: 1}
	for _, c := range []struct {
		name       string
		lane       uint32
		conditions bpf.LinkConditions
		frame      []byte
		mark       uint32
		verdict    bpf.LinkVerdict
		out        []byte // nil: as it was
		events     events
	}{
		{"clean", toHost, bpf.LinkConditions{}, plain, 0, next, nil, passed},
		{"lost", toHost, bpf.LinkConditions{Loss: always}, plain, 0, drop, nil,
			events{bpf.LinkEventPACKETS: 1, bpf.LinkEventLOST: 1}},
		{"IPv6 lost", fromHost, bpf.LinkConditions{Loss: always}, udp6(t, 1, 2, payload), 0, drop, nil,
			events{bpf.LinkEventPACKETS: 1, bpf.LinkEventLOST: 1}},
		{"TCP lost", fromHost, bpf.LinkConditions{Loss: always}, tcp, 0, drop, nil,
			events{bpf.LinkEventPACKETS: 1, bpf.LinkEventLOST: 1}},
		{"echo request lost", fromHost, bpf.LinkConditions{Loss: always}, icmp6(t, 128), 0, drop, nil,
			events{bpf.LinkEventPACKETS: 1, bpf.LinkEventLOST: 1}},
		{"router solicitation exempt", fromHost, bpf.LinkConditions{Loss: always}, icmp6(t, 133), 0, next, nil, exempt},
		{"redirect exempt", fromHost, bpf.LinkConditions{Loss: always}, icmp6(t, 137), 0, next, nil, exempt},
		{"type 138 not exempt", fromHost, bpf.LinkConditions{}, icmp6(t, 138), 0, next, nil, passed},
		{"ARP exempt", fromHost, bpf.LinkConditions{Loss: always}, arp, 0, next, nil, exempt},
		{"multicast exempt", fromHost, bpf.LinkConditions{Loss: always}, multicast, 0, next, nil, exempt},
		{"had its conditions", toHost, bpf.LinkConditions{Loss: always}, plain, done(toHost), next, nil, events{}},
		{"had those of another lane", toHost, bpf.LinkConditions{Loss: always}, plain, done(fromHost), drop, nil,
			events{bpf.LinkEventPACKETS: 1, bpf.LinkEventLOST: 1}},
		{"duplicated", toHost, bpf.LinkConditions{Duplicate: always}, plain, 0, next, nil,
			events{bpf.LinkEventPACKETS: 1, bpf.LinkEventDUPLICATED: 1}},
		{"reordering without wire", toHost, bpf.LinkConditions{Reorder: always}, plain, 0, next, nil, passed},

		{"source port translated", fromHost, bpf.LinkConditions{PortMask: 5}, plain, 0, next,
			udp4(t, 40000^5, 4443, payload), passed},
		{"target port translated", toHost, bpf.LinkConditions{PortMask: 5}, plain, 0, next,
			udp4(t, 40000, 4443^5, payload), passed},
		{"IPv6 translated", fromHost, bpf.LinkConditions{PortMask: 255}, udp6(t, 40000, 4443, payload), 0, next,
			udp6(t, 40000^255, 4443, payload), passed},
		{"behind options", fromHost, bpf.LinkConditions{PortMask: 5}, withOptions(40000), 0, next,
			withOptions(40000 ^ 5), passed},
		{"no checksum stays none", fromHost, bpf.LinkConditions{PortMask: 5}, unsummed, 0, next, unsummedAfter, passed},
		{"second fragment untouched", fromHost, bpf.LinkConditions{PortMask: 5}, second, 0, next, nil, passed},
		{"TCP untouched", fromHost, bpf.LinkConditions{PortMask: 5}, tcp, 0, next, nil, passed},
		{"lost before translation", fromHost, bpf.LinkConditions{PortMask: 5, Loss: always}, plain, 0, drop, nil,
			events{bpf.LinkEventPACKETS: 1, bpf.LinkEventLOST: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects, ns := programs(t)
			require.NoError(t, objects.Lanes.Put(c.lane, c.conditions))
			program := objects.FromHost
			if c.lane == toHost {
				program = objects.ToHost
			}
			verdict, out, mark := run(t, ns, program, c.frame, c.mark)
			require.Equal(t, c.verdict, verdict)
			if c.out == nil {
				c.out = c.frame
			}
			require.Equal(t, c.out, out)
			if verdict == next {
				require.Zero(t, mark)
			}
			var want [bpf.LinkEventEVENTS]uint64
			for e, n := range c.events {
				want[e] = n
			}
			require.Equal(t, want, counted(t, objects, c.lane))
		})
	}
}

func TestPacketsTakeTheWire(t *testing.T) {
	objects, ns := programs(t)
	const lane = loopback<<1 | uint32(ToHost)
	packet := udp4(t, 40000, 4443, []byte("media"))
	for name, c := range map[string]struct {
		conditions bpf.LinkConditions
		reordered  uint16
	}{
		"delayed":   {bpf.LinkConditions{Wire: loopback}, 0},
		"reordered": {bpf.LinkConditions{Wire: loopback, Reorder: 1 << 32}, 1},
	} {
		require.NoError(t, objects.Lanes.Put(lane, c.conditions))
		before := monotonic(t)
		verdict, out, _ := run(t, ns, objects.ToHost, packet, 0)
		require.Equal(t, redirect, verdict, name)
		require.Equal(t, packet, out[wire.HeaderLength:])
		var header bpf.LinkWireHeader
		_, err := binary.Decode(out, binary.NativeEndian, &header)
		require.NoError(t, err)
		require.WithinRange(t, time.Unix(0, int64(header.Time)), time.Unix(0, before), time.Unix(0, monotonic(t)))
		require.EqualValues(t, lane, header.Lane)
		require.Equal(t, c.reordered, header.Reordered)
	}
	got := counted(t, objects, lane)
	require.EqualValues(t, 2, got[bpf.LinkEventWIRED])
	require.EqualValues(t, 1, got[bpf.LinkEventREORDERED])
}

// A frame without a tag cannot have come from the wire.
func TestWireRefusesForeignFrames(t *testing.T) {
	objects, ns := programs(t)
	verdict, _, _ := run(t, ns, objects.OffWire, udp4(t, 1, 2, nil), 0)
	require.Equal(t, drop, verdict)
	require.EqualValues(t, 1, counted(t, objects, 0)[bpf.LinkEventFAILED])
}

// If the kernel refuses a step for a packet, the packet is counted and dropped, not passed on half done.
func TestFailuresAreCounted(t *testing.T) {
	objects, ns := programs(t)
	const lane = loopback<<1 | uint32(FromHost)
	require.NoError(t, objects.Lanes.Put(uint32(lane), bpf.LinkConditions{Wire: 999, Duplicate: 1 << 32}))
	verdict, _, _ := run(t, ns, objects.FromHost, udp4(t, 1, 2, nil), 0)
	require.Equal(t, drop, verdict)
	got := counted(t, objects, lane)
	require.EqualValues(t, 1, got[bpf.LinkEventFAILED])
	require.Zero(t, got[bpf.LinkEventWIRED])
}

func TestCaptureProgram(t *testing.T) {
	_, ns := programs(t)
	c := new(Capture)
	for point := range 2 {
		program, err := c.load(point)
		require.NoError(t, err)
		defer program.Close()
		c.programs = append(c.programs, program)
	}
	var err error
	c.ring, err = ringbuf.NewReader(c.programs[0].Packets)
	require.NoError(t, err)
	defer c.ring.Close()
	recorded := func(point int, frame []byte) []measure.Packet {
		c.packets = nil
		verdict, out, _ := run(t, ns, c.programs[point].Record, frame, 0)
		require.Equal(t, next, verdict)
		require.Equal(t, frame, out)
		require.NoError(t, c.drain())
		return c.packets
	}
	long := bytes.Repeat([]byte("0123456789abcdef"), 10)
	other := bytes.Clone(long)
	other[31] ^= 1
	tail := bytes.Clone(long)
	tail[32] ^= 1

	want := measure.Flow{Source: netip.MustParseAddrPort("198.19.1.1:40000"),
		Target: netip.MustParseAddrPort("198.19.0.1:4443")}
	before := monotonic(t)
	got := recorded(0, udp4(t, 40000, 4443, long))
	require.Len(t, got, 1)
	require.WithinRange(t, time.Unix(0, int64(got[0].Time)), time.Unix(0, before), time.Unix(0, monotonic(t)))
	require.Equal(t, measure.Packet{Time: got[0].Time, Point: 0, Flow: want, Length: 160, Hash: got[0].Hash}, got[0])

	v6 := recorded(1, udp6(t, 40000, 4443, long))
	require.Len(t, v6, 1)
	want = measure.Flow{Source: netip.MustParseAddrPort("[2001:2:0:2::101]:40000"),
		Target: netip.MustParseAddrPort("[2001:2:0:2::1]:4443")}
	require.Equal(t, measure.Packet{Time: v6[0].Time, Point: 1, Flow: want, Length: 160, Hash: got[0].Hash}, v6[0],
		"the hash is of the payload alone")

	hash := func(payload []byte) uint64 { return recorded(0, udp4(t, 1, 2, payload))[0].Hash }
	require.Equal(t, got[0].Hash, hash(tail), "only 32 bytes are hashed")
	require.NotEqual(t, got[0].Hash, hash(other))
	require.NotEqual(t, got[0].Hash, hash(long[:159]))
	seen := make(map[uint64]int)
	for n := range 40 {
		require.NotContains(t, seen, hash(make([]byte, n)))
		seen[hash(make([]byte, n))] = n
	}

	lying := udp4(t, 1, 2, long)
	binary.BigEndian.PutUint16(lying[14+20+4:], 7) // shorter than its own header
	for name, frame := range map[string][]byte{
		"TCP": build(t, ethernet(relayMAC, layers.EthernetTypeIPv4), ip4(layers.IPProtocolTCP),
			gopacket.Payload(long)),
		"ARP":       build(t, ethernet(relayMAC, layers.EthernetTypeARP), gopacket.Payload(make([]byte, 28))),
		"length 7":  lying,
		"cut":       udp4(t, 1, 2, long)[:14+20+4],
		"cut later": udp4(t, 1, 2, long)[:14+20+8+10],
	} {
		require.Empty(t, recorded(0, frame), name)
	}
}

// UDP GSO hands over several packets as one.
func TestSegments(t *testing.T) {
	lengths := func(p bpf.CapturePacket) (all []int) {
		for _, p := range parse(unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p))) {
			all = append(all, p.Length)
		}
		return all
	}
	require.Equal(t, []int{0}, lengths(bpf.CapturePacket{}))
	require.Equal(t, []int{1200}, lengths(bpf.CapturePacket{Length: 1200}))
	require.Equal(t, []int{1200, 1200, 1}, lengths(bpf.CapturePacket{Length: 2401, Segment: 1200}))
	require.Equal(t, []int{1200, 1200}, lengths(bpf.CapturePacket{Length: 2400, Segment: 1200}))
}

// BenchmarkPrograms reports the programs' time for a packet, apart from the call that runs them.
func BenchmarkPrograms(b *testing.B) {
	requirePermission(b)
	var link bpf.LinkObjects
	require.NoError(b, bpf.LoadLinkObjects(&link, nil))
	defer link.Close()
	var capture bpf.CaptureObjects
	require.NoError(b, bpf.LoadCaptureObjects(&capture, nil))
	defer capture.Close()
	frame := udp4(b, 40000, 4443, make([]byte, 1200))
	for name, program := range map[string]*ebpf.Program{"to_host": link.ToHost, "capture": capture.Record} {
		b.Run(name, func(b *testing.B) {
			const repeat = 100_000 // fewer than the capture's ring takes
			for b.Loop() {
				_, duration, err := program.Benchmark(frame, repeat, nil)
				require.NoError(b, err)
				b.ReportMetric(float64(duration.Nanoseconds()), "bpf_ns/op")
			}
		})
	}
}
