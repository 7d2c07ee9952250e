//go:build linux

package bpf

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/rtt/internal/wire"
)

// benchLimits are the defaults of the command.
var benchLimits = Limits{
	Flows: 131072, Stamps: 262144, Queries: 65536, Prefixes: 16384, LocalAddresses: 16, RingBytes: 4 << 20,
}

// benching loads a program with a real clock and the default rate limit.
func benching(b *testing.B, s MonitorSettings, program string) *ebpf.Program {
	b.Helper()
	requireKernel(b)
	if s.Aggregate == 0 {
		s.Events, s.Batch = 1, 16
	}
	if s.StampInterval == 0 {
		s.StampInterval = uint64(100 * time.Millisecond)
	}
	s.BinWidth, s.Vlans, s.Ipv4Mask = 4e6, 1, 0x00ffffff
	m, err := Load(s, benchLimits, program)
	require.NoError(b, err)
	b.Cleanup(m.Close)
	return m.Programs[program]
}

// again runs the program over one frame again and again, after others that came before.
func again(b *testing.B, p *ebpf.Program, frame []byte, before ...[]byte) {
	for _, f := range before {
		_, err := p.Run(&ebpf.RunOptions{Data: padded(f)})
		require.NoError(b, err)
	}
	b.ResetTimer()
	var total time.Duration
	for left := b.N; left > 0; {
		n := min(left, 1<<20)
		_, each, err := p.Benchmark(padded(frame), n, nil)
		require.NoError(b, err)
		total += each * time.Duration(n)
		left -= n
	}
	b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "bpf_ns/op")
}

var (
	busy = wire.TCP{Seq: 1000, Ack: 1, Flags: wire.ACK, Timestamps: true, Val: 100, Ecr: 7, Length: 1400}
	pure = wire.TCP{Seq: 1, Ack: 2400, Flags: wire.ACK, Timestamps: true, Val: 8, Ecr: 99}
)

// BenchmarkPacket measures the time of one packet in the program, by kind of packet, with everything switched on.
func BenchmarkPacket(b *testing.B) {
	plainData, plainAck := busy, pure
	plainData.Timestamps, plainAck.Timestamps = false, false
	flow := wire.Frame(busy.Between(client, server))
	quicFlow := wire.Frame(up(0, clientToInit.Datagram()).packet)
	for _, c := range []struct {
		name   string
		frame  []byte
		before [][]byte
	}{
		{"not-IP", wire.Ethernet(wire.TypeARP, make([]byte, 28)), nil},
		{"UDP-that-is-not-measured", wire.Frame(wire.UDP(client, server, make([]byte, 1200))), nil},
		{"TCP-ACK-of-no-flow", wire.Frame(pure.Between(server, client)), nil},
		{"TCP-data", flow, [][]byte{flow}},
		{"TCP-ACK", wire.Frame(pure.Between(server, client)), [][]byte{flow}},
		{
			"TCP-data-IPv6", wire.Frame(busy.Between(client6, server6)),
			[][]byte{wire.Frame(busy.Between(client6, server6))},
		},
		{
			"TCP-data-without-timestamps", wire.Frame(plainData.Between(client, server)),
			[][]byte{wire.Frame(plainData.Between(client, server))},
		},
		{
			"TCP-ACK-without-timestamps", wire.Frame(plainAck.Between(server, client)),
			[][]byte{wire.Frame(plainData.Between(client, server))},
		},
		{"ICMP-echo", wire.Frame(wire.Echo{ID: 1, Seq: 1, Length: 56}.Between(client.Addr(), server.Addr())), nil},
		{"DNS-query", wire.Frame(asked(0, wire.DNS{Name: "www.example.org", Type: 1}).packet), nil},
		{"NTP-query", wire.Frame(wire.UDP(client, timeServer, wire.NTP{Mode: 3}.Message())), nil},
		{"STUN-request", wire.Frame(wire.UDP(client, server, wire.STUN{Type: 1}.Message())), nil},
		{"QUIC-1-RTT", wire.Frame(down(0, wire.Short(true, clientID, 0, 1200)).packet), [][]byte{quicFlow}},
	} {
		for _, program := range []string{MonitorProgIngress, MonitorProgEgress, MonitorProgXdpIngress} {
			b.Run(c.name+"/"+program, func(b *testing.B) {
				again(b, benching(b, everything, program), c.frame, c.before...)
			})
		}
	}
}

// BenchmarkOptions measures the time of a segment with data, with each option switched on.
func BenchmarkOptions(b *testing.B) {
	flow := wire.Frame(busy.Between(client, server))
	for _, c := range []struct {
		name     string
		settings MonitorSettings
	}{
		{"TCP-only", MonitorSettings{Tcp: 1}},
		{"all-protocols", everything},
		{"metrics", MonitorSettings{Tcp: 1, Traffic: 1}},
		{"aggregation", MonitorSettings{Tcp: 1, Traffic: 1, Aggregate: 1}},
	} {
		b.Run(c.name, func(b *testing.B) { again(b, benching(b, c.settings, MonitorProgEgress), flow, flow) })
	}
}

// BenchmarkTunnels measures the time of a segment with data, by the tunnel that it is in.
func BenchmarkTunnels(b *testing.B) {
	packet := busy.Between(client, server)
	for _, c := range []struct {
		name     string
		settings MonitorSettings
		frame    []byte
	}{
		{"not-looked-for", everything, wire.Frame(packet)},
		{"none", lookInto, wire.Frame(packet)},
		{"IP-in-IP", lookInto, wire.Frame(ipIn4(4, packet))},
		{"MPLS", lookInto, wire.Ethernet(wire.TypeMPLS, wire.MPLS(packet, 16))},
		{"GRE", lookInto, wire.Frame(gre(0, wire.TypeIPv4, packet))},
		{"GTP-U", lookInto, wire.Frame(toPort(wire.GTPUPort, wire.GTPU(packet)))},
		{"VXLAN", lookInto, wire.Frame(toPort(wire.VXLANPort, wire.VXLAN(7, wire.Frame(packet))))},
	} {
		b.Run(c.name, func(b *testing.B) { again(b, benching(b, c.settings, MonitorProgEgress), c.frame, c.frame) })
	}
}

// BenchmarkRoundTrip measures the mean time of a packet when each pair of data and ACK makes one RTT, over many flows,
// with all RTTs and with the default rate limit.
func BenchmarkRoundTrip(b *testing.B) {
	for _, flows := range []int{1, 10, 100, 1000} {
		for name, s := range map[string]MonitorSettings{
			"every-RTT": {Tcp: 1, StampInterval: 1}, "sampled": {Tcp: 1},
			"aggregated": {Tcp: 1, StampInterval: 1, Aggregate: 1, Traffic: 1},
		} {
			b.Run(fmt.Sprintf("%s/%d-flows", name, flows), func(b *testing.B) {
				p := benching(b, s, MonitorProgEgress)
				stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
				require.NoError(b, err)
				defer stats.Close()
				frames := roundTrips(flows, min(b.N, 20_000))
				before := runTime(b, p)
				b.ResetTimer()
				for i := range b.N {
					_, err := p.Run(&ebpf.RunOptions{Data: frames[i%len(frames)]})
					require.NoError(b, err)
				}
				b.StopTimer()
				b.ReportMetric(float64(runTime(b, p)-before)/float64(b.N), "bpf_ns/op")
			})
		}
	}
}

// roundTrips returns segments and the ACKs that answer them, of each flow in turn, with increasing timestamps.
func roundTrips(flows, packets int) (frames [][]byte) {
	for i := 0; len(frames) < packets; i++ {
		val := uint32(1 + i/flows)
		from := withPort(client, uint16(1000+i%flows))
		d, a := busy, pure
		d.Seq, d.Val = 1000+val*1400, val
		a.Ack, a.Ecr = d.Seq+1400, val
		frames = append(frames, wire.Frame(d.Between(from, server)), wire.Frame(a.Between(server, from)))
	}
	return frames
}

func runTime(b *testing.B, p *ebpf.Program) time.Duration {
	s, err := p.Stats()
	require.NoError(b, err)
	return s.Runtime
}

// BenchmarkCleanUp measures the time to search a table of flows, divided by their number.
func BenchmarkCleanUp(b *testing.B) {
	const flows = 100_000
	requireKernel(b)
	m, err := Load(MonitorSettings{Tcp: 1}, benchLimits, MonitorProgEgress, MonitorProgExpireFlows)
	require.NoError(b, err)
	b.Cleanup(m.Close)
	for i := range uint32(flows) {
		from := withPort(client, uint16(i))
		to := withPort(server, uint16(i>>16))
		_, err := m.Programs[MonitorProgEgress].Run(&ebpf.RunOptions{Data: wire.Frame(busy.Between(from, to))})
		require.NoError(b, err)
	}
	w := &watch{t: b, m: m}
	b.ResetTimer()
	for range b.N {
		w.expire(0, MonitorProgExpireFlows)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/flows, "ns/flow")
}

// BenchmarkAggregated measures the time of a packet that is counted for the prefixes, or the groups, of its two ends.
// The groups have 100,000 prefixes, of lengths and at places that follow from a seed.
func BenchmarkAggregated(b *testing.B) {
	frame := wire.Frame(pure.Between(server, client))
	for name, groups := range map[string]uint8{"prefixes": 0, "groups": 1} {
		b.Run(name, func(b *testing.B) {
			requireKernel(b)
			limits := benchLimits
			limits.GroupPrefixes = 100_000
			s := MonitorSettings{Tcp: 1, Aggregate: 1, Traffic: 1, Vlans: 1, Ipv4Mask: 0x00ffffff, Groups: groups}
			m, err := Load(s, limits, MonitorProgEgress)
			require.NoError(b, err)
			b.Cleanup(m.Close)
			random := rand.New(rand.NewPCG(1, 2))
			for i := uint32(0); groups != 0 && i < limits.GroupPrefixes; i++ {
				key := MonitorGroupLookup{Bits: 96 + 12 + random.Uint32N(17)}
				key.Address[2], key.Address[3] = 0xffff0000, random.Uint32()
				require.NoError(b, m.Maps[MonitorMapGroups].Put(key, i%1000))
			}
			again(b, m.Programs[MonitorProgEgress], frame, frame)
		})
	}
}
