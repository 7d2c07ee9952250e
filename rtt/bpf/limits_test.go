//go:build linux

package bpf

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

func TestRateLimit(t *testing.T) {
	const pair = "timestamp 10.0.0.2:80>10.0.0.1:1000"
	// A packet with a new timestamp each 10 ms, answered after 5 ms.
	steady := func(n int, rtt func(i int) float64) (packets []moment) {
		for i := range n {
			at, seq := float64(10*i), uint32(100*i)
			packets = append(packets, data(at, seq, uint32(100+i)), ack(at+rtt(i), seq+100, uint32(100+i)))
		}
		return packets
	}
	five := func(int) float64 { return 5 }
	growing := func(i int) float64 { return min(float64(2+i), 9) }
	for name, test := range map[string]tcpTest{
		"by time": {
			settings: MonitorSettings{StampInterval: uint64(ms(40))},
			packets:  steady(10, five),
			want:     []string{"15ms +5ms " + pair, "55ms +5ms " + pair, "95ms +5ms " + pair},
			tallies:  map[MonitorTally]uint64{MonitorTallyTALLY_STAMPS: 3, MonitorTallyTALLY_STAMPS_LIMITED: 6},
		},
		"by a multiple of the minimum RTT, once there is one": {
			settings: MonitorSettings{StampInterval: uint64(time.Hour), RttRate: 8 * 1024},
			packets:  steady(10, growing),
			want:     []string{"13ms +3ms " + pair, "46ms +6ms " + pair, "79ms +9ms " + pair},
		},
		"by a multiple of the smoothed RTT": {
			settings: MonitorSettings{RttRate: 6 * 1024, Smoothed: 1},
			packets:  steady(10, growing),
			// 6 × 3 ms; 6 × (7 × 3 + 5) / 8 = 19.5 ms; then 6 × 3.71, 22.3 ms: the fourth packet is past that
			want: []string{"13ms +3ms " + pair, "35ms +5ms " + pair, "57ms +7ms " + pair, "89ms +9ms " + pair},
		},
		"the clock also runs for the other direction by itself": {
			settings: MonitorSettings{StampInterval: uint64(time.Second)},
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101),
				answer(11, wire.TCP{Seq: 1, Ack: 100, Flags: wire.ACK, Timestamps: true, Val: 5, Length: 10}),
				answer(12, wire.TCP{
					Seq: 11, Ack: 200, Flags: wire.ACK, Timestamps: true, Val: 6, Ecr: 101, Length: 10,
				}),
				sent(16, wire.TCP{Seq: 200, Ack: 21, Flags: wire.ACK, Timestamps: true, Val: 102, Ecr: 6}),
			},
			want: []string{"12ms +2ms " + pair, "16ms +4ms timestamp 10.0.0.1:1000>10.0.0.2:80"},
		},
	} {
		t.Run(name, test.run)
	}
}

func TestFlowsExpire(t *testing.T) {
	const pair = "10.0.0.2:80>10.0.0.1:1000"
	w := watching(t, everything, MonitorProgEgress, MonitorProgExpireFlows)
	expire := func(at time.Duration) []string {
		w.expire(at, MonitorProgExpireFlows)
		return w.got()
	}
	// next returns when the next entry can expire, as the program tells user space.
	next := func() time.Duration {
		var all [MonitorExpiringEXPIRING_COUNT]uint64
		require.NoError(t, w.m.Variables[MonitorVarNextExpiry].Get(&all))
		require.Zero(t, all[MonitorExpiringEXPIRING_QUERIES], "nobody looks for these")
		return time.Duration(all[MonitorExpiringEXPIRING_FLOWS]) - epoch
	}
	w.see(data(0, 0, 100))
	w.see(ack(5, 100, 100))
	w.see(moment{0, wire.TCP{Flags: wire.ACK, Length: 1}.Between(withPort(client, 2), server)}) // never answered
	w.see(moment{0, wire.Echo{ID: 9}.Between(client.Addr(), server.Addr())})
	w.see(moment{0, wire.Echo{ID: 9, Reply: true}.Between(server.Addr(), client.Addr())})
	w.see(up(0, clientToInit.Datagram()))
	w.see(down(0, wire.Long{Destination: clientID, Source: serverID}.Datagram()))
	w.see(up(0, wire.Long{Type: wire.Handshake, Destination: serverID, Source: clientID}.Datagram()))
	w.got()

	require.Empty(t, expire(30*time.Second))
	require.Equal(t, 30*time.Second, next())
	require.Equal(t, []string{"30.001s close 10.0.0.2:9>10.0.0.1:9: timeout from expiry"}, expire(30*time.Second+ms(1)))
	require.EqualValues(t, 2, w.tally(MonitorTallyTALLY_FLOWS_EXPIRED), "the unanswered one too")
	require.Equal(t, 59*time.Second+ms(1), next(), "a new flow could time out then")
	require.Empty(t, expire(120*time.Second))
	require.Equal(t, []string{
		"2m0.001s close 10.0.0.2:443>10.0.0.1:1000: timeout from expiry",
	}, expire(120*time.Second+ms(1)))
	require.Empty(t, expire(300*time.Second+ms(5)))
	require.Equal(t, []string{"5m0.006s close " + pair + ": timeout from expiry"}, expire(300*time.Second+ms(6)))
	require.EqualValues(t, 4, w.tally(MonitorTallyTALLY_FLOWS_EXPIRED))
	require.False(t, w.m.Maps[MonitorMapFlows].Iterate().Next(new(MonitorFlowKey), new(MonitorFlow)))
}

// newReplier returns a function that shows a packet with a new timestamp, and its reply. The first of them opens the
// flow, and each further one causes an RTT.
func newReplier(w *watch, each time.Duration) (reply func(i int)) {
	return func(i int) {
		at := float64(time.Duration(i)*each) / float64(time.Millisecond)
		w.show(MonitorProgEgress, ms(at), wire.Frame(data(at, uint32(100*i), uint32(100+i)).packet))
		w.show(MonitorProgEgress, ms(at+0.1), wire.Frame(ack(at+0.1, uint32(100*i+100), uint32(100+i)).packet))
	}
}

// waitingBatches returns how many CPUs have events that wait, as the programs tell user space.
func (w *watch) waitingBatches() (n uint32) {
	require.NoError(w.t, w.m.Variables[MonitorVarWaitingBatches].Get(&n))
	return n
}

// The first events of a while are handed over one by one, further ones in batches.
func TestBatches(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1, Batch: 16}, MonitorProgEgress, MonitorProgFlush)
	onOneCPU(t)
	reply := newReplier(w, time.Millisecond)
	const lone = 32
	for i := range lone {
		reply(i)
		require.NotEmpty(t, w.got(), "it does not wait")
		require.Zero(t, w.waitingBatches())
	}
	for i := range 15 {
		reply(lone + i)
		require.Empty(t, w.got(), "the batch waits")
		require.EqualValues(t, 1, w.waitingBatches())
	}
	reply(lone + 15)
	require.Len(t, w.got(), 16, "the batch is full")
	require.Zero(t, w.waitingBatches())

	reply(lone + 16)
	require.Empty(t, w.got())
	_, err := w.m.Programs[MonitorProgFlush].Run(&ebpf.RunOptions{})
	require.NoError(t, err)
	require.Len(t, w.got(), 1, "flushed")
	require.Zero(t, w.waitingBatches())

	reply(lone + 17)
	require.Empty(t, w.got())
	reply(lone + 17 + 51)
	require.Len(t, w.got(), 2, "the batch waited long enough")
	reply(lone + 17 + 52)
	require.Len(t, w.got(), 1, "after a while, events go one by one again")
	require.Zero(t, w.waitingBatches())
}

func TestEventsAreLostAndCounted(t *testing.T) {
	limits := testLimits
	testLimits.RingBytes = 4096
	t.Cleanup(func() { testLimits = limits })
	w := watching(t, MonitorSettings{Icmp: 1})
	const flows = 100
	for id := range uint16(flows) {
		w.show(MonitorProgEgress, 0, wire.Frame(wire.Echo{ID: id}.Between(client.Addr(), server.Addr())))
		w.show(MonitorProgEgress, 1, wire.Frame(wire.Echo{ID: id, Reply: true}.Between(server.Addr(), client.Addr())))
	}
	got, lost := len(w.got()), w.tally(MonitorTallyTALLY_EVENTS_LOST)
	require.NotZero(t, got)
	require.EqualValues(t, got, w.tally(MonitorTallyTALLY_EVENTS))
	require.EqualValues(t, 2*flows-got, lost)
	require.Equal(t, map[string]uint64{"icmp": 2 * flows}, w.outcomes(), "no packet is")
}

func TestStampsGiveWay(t *testing.T) {
	w := watching(t, MonitorSettings{Icmp: 1})
	n := int(testLimits.Stamps) * 2
	for seq := range n {
		echo := wire.Echo{Seq: uint16(seq)}
		w.show(MonitorProgEgress, time.Duration(seq), wire.Frame(echo.Between(client.Addr(), server.Addr())))
	}
	require.InDelta(t, n/2, w.tally(MonitorTallyTALLY_STAMPS_EVICTED), float64(n)/8)
	for seq := range n {
		w.show(MonitorProgEgress, ms(1), wire.Frame(wire.Echo{
			Seq: uint16(seq), Reply: true,
		}.Between(server.Addr(), client.Addr())))
	}
	require.EqualValues(t, uint64(n)-w.tally(MonitorTallyTALLY_STAMPS_EVICTED), w.tally(MonitorTallyTALLY_RTTS))
}

// A packet that arrives for this host measures the host's own delay, and only on request.
func TestPacketsForThisHost(t *testing.T) {
	const far = "timestamp 10.0.0.2:80>10.0.0.1:1000"
	const own = "timestamp 10.0.0.1:1000>10.0.0.2:80"
	for _, test := range []struct {
		settings MonitorSettings
		host     netip.Addr
		want     []string
	}{
		{MonitorSettings{}, client.Addr(), []string{"12ms +2ms " + far}},
		{MonitorSettings{Local: 1}, client.Addr(), []string{"12ms +2ms " + far, "16ms +4ms " + own}},
		{
			MonitorSettings{}, netip.MustParseAddr("10.9.9.9"), []string{"12ms +2ms " + far, "16ms +4ms " + own},
		}, // forwarded
	} {
		test.settings.Tcp = 1
		w := watching(t, test.settings, MonitorProgIngress, MonitorProgEgress)
		if test.settings.Local == 0 {
			host := MonitorAddress{Bytes: test.host.As16()}
			require.NoError(t, w.m.Maps[MonitorMapLocalAddresses].Put(host, uint8(1)))
		}
		out := w.see
		in := func(m moment) { w.show(MonitorProgIngress, m.at, wire.Frame(m.packet)) }
		reply := func(at float64, seq, val, ecr uint32) moment {
			return answer(at, wire.TCP{
				Seq: seq, Ack: 200, Flags: wire.ACK, Timestamps: true, Val: val, Ecr: ecr, Length: 10,
			})
		}
		out(data(0, 0, 100))
		out(data(10, 100, 101))
		in(reply(11, 1, 5, 100))
		in(reply(12, 11, 6, 101))
		out(sent(16, wire.TCP{Seq: 200, Ack: 21, Flags: wire.ACK, Timestamps: true, Val: 102, Ecr: 6}))
		require.Equal(t, test.want, w.rtts())
	}

	w := watching(t, everything, MonitorProgIngress)
	require.NoError(t, w.m.Maps[MonitorMapLocalAddresses].Put(MonitorAddress{Bytes: server.Addr().As16()}, uint8(1)))
	for _, packet := range [][]byte{
		segment.Between(client, server), wire.Echo{}.Between(client.Addr(), server.Addr()),
		wire.UDP(client, quicServer, clientToInit.Datagram()), asked(0, wire.DNS{}).packet,
		wire.UDP(client, withPort(server, 123), wire.NTP{Mode: 3}.Message()),
		wire.UDP(client, server, wire.STUN{Type: 1}.Message()),
	} {
		w.show(MonitorProgIngress, 0, wire.Frame(packet))
	}
	require.Equal(t, map[string]uint64{"local": 6}, w.outcomes())
}

// A packet over 64 KiB, as segmentation offload makes them, has no length in its IP header.
func TestPacketsOver64KiB(t *testing.T) {
	for _, from := range []struct{ client, server netip.AddrPort }{{client, server}, {client6, server6}} {
		w := watching(t, MonitorSettings{Tcp: 1})
		frame := wire.Frame(wire.TCP{Flags: wire.ACK}.Between(from.client, from.server))
		lengthAt := 14 + 2
		if from.client.Addr().Is6() {
			lengthAt = 14 + 4
		}
		edit(frame, lengthAt, 0, 0)
		require.NoError(t, w.m.SetClock(0, 100_000))
		_, err := w.m.Programs[MonitorProgEgress].Run(&ebpf.RunOptions{Data: frame})
		require.NoError(t, err)
		require.Equal(t, map[string]uint64{"tcp": 1}, w.outcomes())
		var flow MonitorFlow
		require.True(t, w.m.Maps[MonitorMapFlows].Iterate().Next(new(MonitorFlowKey), &flow))
		require.EqualValues(t, 100_000-len(frame), flow.Side[0].Bytes)
	}
}
