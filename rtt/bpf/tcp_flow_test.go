//go:build linux

package bpf

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

func syn(at float64, val uint32) moment {
	return sent(at, wire.TCP{Seq: 99, Flags: wire.SYN, Timestamps: true, Val: val})
}

func synACK(at float64, val, ecr uint32) moment {
	return answer(at, wire.TCP{Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK, Timestamps: true, Val: val, Ecr: ecr})
}

func fin(at float64) moment {
	return sent(at, wire.TCP{Seq: 100, Ack: 500, Flags: wire.FIN | wire.ACK})
}

func TestTCPFlows(t *testing.T) {
	const pair = "10.0.0.2:80>10.0.0.1:1000"
	const reverse = "10.0.0.1:1000>10.0.0.2:80"
	syns := MonitorSettings{Syn: 1}
	for name, test := range map[string]tcpTest{
		"opened by the first reply, at the time of the first packet": {
			packets: []moment{data(3, 0, 100), ack(20, 100, 100)},
			want:    []string{"3ms open " + pair + ": first packet from destination"},
		},
		"a handshake, on request": {
			settings: syns,
			packets: []moment{
				syn(0, 7), synACK(10, 9, 7),
				sent(12, wire.TCP{Seq: 100, Ack: 500, Flags: wire.ACK, Timestamps: true, Val: 8, Ecr: 9}),
			},
			want: []string{
				"0s open " + pair + ": SYN from destination", "10ms +10ms timestamp " + pair,
				"10ms open " + reverse + ": SYN-ACK from destination", "12ms +2ms timestamp " + reverse,
			},
		},
		"a SYN sent again with another timestamp says which was answered": {
			settings: syns,
			packets:  []moment{syn(0, 7), syn(1000, 1007), synACK(1010, 9, 1007)},
			want:     []string{"0s open " + pair + ": SYN from destination", "1.01s +10ms timestamp " + pair},
		},
		"the first data after a seen SYN need not wait for another timestamp": {
			settings: syns,
			packets:  []moment{syn(0, 7), synACK(10, 9, 7), data(20, 100, 8), ack(25, 200, 8)},
			want: []string{
				"0s open " + pair + ": SYN from destination", "10ms +10ms timestamp " + pair,
				"10ms open " + reverse + ": SYN-ACK from destination", "25ms +5ms timestamp " + pair,
			},
		},
		"a SYN creates no flow unasked, nor do a pure ACK, a FIN, a RST": {
			packets: []moment{
				syn(0, 7), synACK(1, 9, 7), ack(2, 100, 7), fin(3), sent(4, wire.TCP{Flags: wire.RST, Length: 10}),
			},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_FLOWS_CREATED: 0},
		},
		"FIN closes the sender's direction, and the flow ends with both": {
			packets: []moment{
				data(0, 0, 100), ack(5, 100, 100), fin(10),
				answer(15, wire.TCP{Seq: 500, Ack: 101, Flags: wire.FIN | wire.ACK}), ack(20, 101, 100),
			},
			want: []string{
				"0s open " + pair + ": first packet from destination", "10ms close " + pair + ": FIN from destination",
			},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_FLOWS_DELETED: 1},
		},
		"what follows a FIN is still measured in the other direction": {
			packets: []moment{
				data(0, 0, 100), ack(5, 100, 100), fin(10),
				answer(11, wire.TCP{Seq: 500, Ack: 101, Flags: wire.ACK, Timestamps: true, Val: 70, Length: 5}),
				answer(12, wire.TCP{Seq: 505, Ack: 101, Flags: wire.ACK, Timestamps: true, Val: 71, Length: 5}),
				sent(18, wire.TCP{Seq: 101, Ack: 510, Flags: wire.ACK, Timestamps: true, Val: 101, Ecr: 71}),
			},
			want: []string{
				"0s open " + pair + ": first packet from destination", "10ms close " + pair + ": FIN from destination",
				"11ms open " + reverse + ": first packet from destination", "18ms +6ms timestamp " + reverse,
			},
		},
		"RST closes both directions, also without timestamps": {
			packets: []moment{data(0, 0, 100), ack(5, 100, 100), sent(10, wire.TCP{Seq: 100, Flags: wire.RST})},
			want: []string{
				"0s open " + pair + ": first packet from destination", "10ms close " + pair + ": RST from destination",
			},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_FLOWS_DELETED: 1},
		},
		"a RST from the other end": {
			packets: []moment{data(0, 0, 100), ack(5, 100, 100), answer(10, wire.TCP{Seq: 1, Flags: wire.RST})},
			want: []string{
				"0s open " + pair + ": first packet from destination", "10ms close " + pair + ": RST from source",
			},
		},
		"a new SYN ends what went before between the same ports": {
			packets: []moment{data(0, 0, 100), ack(5, 100, 100), syn(10, 3)},
			want: []string{
				"0s open " + pair + ": first packet from destination", "10ms close " + pair + ": SYN from destination",
			},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_FLOWS_DELETED: 1},
		},
		"and begins another flow, if SYNs may": {
			settings: syns,
			packets:  []moment{data(0, 0, 100), ack(5, 100, 100), syn(10, 3), synACK(14, 9, 3)},
			want: []string{
				"0s open " + pair + ": first packet from destination", "10ms close " + pair + ": SYN from destination",
				"10ms open " + pair + ": SYN from destination", "14ms +4ms timestamp " + pair,
			},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_FLOWS_CREATED: 2, MonitorTallyTALLY_FLOWS_DELETED: 1},
		},
	} {
		test.flows = true
		t.Run(name, test.run)
	}
}

// opening returns a packet that opens a flow from a port of the client.
func opening(port uint16) []byte {
	return wire.Frame(wire.TCP{Flags: wire.ACK, Length: 1}.Between(withPort(client, port), server))
}

func TestFlowTableFull(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1})
	answer := wire.TCP{Flags: wire.ACK, Ack: 1, Length: 1}
	for port := range uint16(3000) {
		w.show(MonitorProgEgress, 0, opening(port+1))
		w.show(MonitorProgEgress, ms(1), wire.Frame(answer.Between(server, withPort(client, port+1))))
	}
	created, full := w.tally(MonitorTallyTALLY_FLOWS_CREATED), w.tally(MonitorTallyTALLY_FLOWS_FULL)
	require.EqualValues(t, testLimits.Flows, created, "confirmed flows stay")
	require.EqualValues(t, 2*(3000-created), full, "each end would have opened a flow")
	require.Zero(t, w.tally(MonitorTallyTALLY_FLOWS_EVICTED))
	require.Equal(t, map[string]uint64{"tcp": 2 * created, "flows-full": full}, w.outcomes())
}

// A flood that nobody answers neither keeps new flows out nor removes flows that are confirmed.
func TestUnansweredFlowsGiveWay(t *testing.T) {
	const pair = "timestamp 10.0.0.2:80>10.0.0.1:1000"
	w := watching(t, MonitorSettings{Tcp: 1})
	flood := func(from uint16) {
		for port := range uint16(2 * testLimits.Flows) {
			w.show(MonitorProgEgress, w.now, opening(from+port))
		}
	}
	w.see(data(0, 0, 100))
	w.see(data(1, 100, 101))
	w.see(ack(6, 200, 101))
	require.Equal(t, []string{"6ms +5ms " + pair}, w.rtts())

	flood(2000)
	w.see(data(10, 200, 102))
	w.see(ack(16, 300, 102))
	require.Equal(t, []string{"16ms +6ms " + pair}, w.rtts(), "the confirmed flow is still there")

	other := withPort(client, 1001)
	for i := range uint32(2) {
		w.show(MonitorProgEgress, ms(20+float64(i)), wire.Frame(wire.TCP{
			Seq: i, Flags: wire.ACK, Timestamps: true, Val: 7 + i, Length: 1,
		}.Between(other, server)))
	}
	w.show(MonitorProgEgress, ms(24), wire.Frame(wire.TCP{
		Ack: 2, Flags: wire.ACK, Timestamps: true, Val: 9, Ecr: 8,
	}.Between(server, other)))
	require.Equal(t, []string{"24ms +3ms timestamp 10.0.0.2:80>10.0.0.1:1001"}, w.rtts(), "a new flow finds room")

	flood(10_000)
	evicted, created := w.tally(MonitorTallyTALLY_FLOWS_EVICTED), w.tally(MonitorTallyTALLY_FLOWS_CREATED)
	require.EqualValues(t, created-uint64(testLimits.Flows), evicted)
	require.Zero(t, w.tally(MonitorTallyTALLY_FLOWS_FULL))
}

// shake shows a handshake of a port of the client.
func (w *watch) shake(at time.Duration, port uint16) {
	from := withPort(client, port)
	for _, packet := range [][]byte{
		wire.TCP{Seq: 99, Flags: wire.SYN}.Between(from, server),
		wire.TCP{Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK}.Between(server, from),
		wire.TCP{Seq: 100, Ack: 500, Flags: wire.ACK}.Between(from, server),
	} {
		w.show(MonitorProgEgress, at, wire.Frame(packet))
	}
}

// flowPorts returns the ports of the client that have a flow.
func (w *watch) flowPorts() map[uint16]bool {
	w.t.Helper()
	ports := make(map[uint16]bool)
	address := MonitorAddress{Bytes: client.Addr().As16()}
	var key MonitorFlowKey
	all := w.m.Maps[MonitorMapFlows].Iterate()
	for all.Next(&key, new(MonitorFlow)) {
		for i := range key.Address {
			if key.Address[i] == address {
				ports[htons(key.Port[i])] = true
			}
		}
	}
	require.NoError(w.t, all.Err())
	return ports
}

// Handshakes alone neither keep places nor take places from connections that have nothing to send for a while.
func TestHandshakesGiveWay(t *testing.T) {
	const pair = "timestamp 10.0.0.2:80>10.0.0.1:1000"
	w := watching(t, MonitorSettings{Tcp: 1, Syn: 1}, MonitorProgEgress, MonitorProgExpireFlows)
	w.see(syn(0, 7), synACK(10, 9, 7), data(20, 100, 8), ack(25, 200, 8))
	require.Len(t, w.rtts(), 2)

	var events []string
	for port := range uint16(2 * testLimits.Flows) {
		w.shake(100*time.Second, 2000+port)
		events = append(events, w.got()...)
	}
	created := w.tally(MonitorTallyTALLY_FLOWS_CREATED)
	require.EqualValues(t, 2*testLimits.Flows+1, created)
	require.EqualValues(t, created-uint64(testLimits.Flows), w.tally(MonitorTallyTALLY_FLOWS_EVICTED))
	require.Zero(t, w.tally(MonitorTallyTALLY_FLOWS_FULL))
	opened, closed := 0, 0
	for _, line := range events {
		if strings.Contains(line, "open") {
			opened++
		}
		if strings.Contains(line, "close") {
			closed++
			require.Contains(t, line, ": timeout from expiry")
		}
	}
	require.Equal(t, 2*int(2*testLimits.Flows), opened, "both directions")
	require.Equal(t, 2*int(testLimits.Flows+1), closed, "of the flows that gave way")

	w.expire(131*time.Second, MonitorProgExpireFlows)
	require.Equal(t, map[uint16]bool{1000: true}, w.flowPorts(), "and the others time out soon")
	w.got()
	w.see(data(200_000, 200, 9), ack(200_007, 300, 9))
	require.Equal(t, []string{"3m20.007s +7ms " + pair}, w.rtts())
}

// Who sends the packets of both ends can confirm flows, and fill the table. These give way when they are silent, and
// new flows have the time to be confirmed.
func TestSilentFlowsGiveWay(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1})
	begin := func(at time.Duration, port uint16) { w.show(MonitorProgEgress, at, opening(port)) }
	confirm := func(at time.Duration, port uint16) {
		answer := wire.TCP{Flags: wire.ACK, Ack: 1, Length: 1}
		w.show(MonitorProgEgress, at, wire.Frame(answer.Between(server, withPort(client, port))))
	}
	for port := range uint16(testLimits.Flows) {
		begin(0, 1+port)
		confirm(0, 1+port)
	}
	const tries, busy = 100, 100
	for range tries {
		begin(20*time.Second, 5000)
	}
	require.EqualValues(t, tries, w.tally(MonitorTallyTALLY_FLOWS_FULL), "no flow is silent")
	for port := range uint16(busy) {
		begin(25*time.Second, 1+port)
	}
	w.got()

	const groups, group = 3, 100
	for n := range uint16(groups) {
		for i := range uint16(group) {
			begin(31*time.Second, 6000+n*group+i)
		}
		for i := range uint16(group) {
			confirm(31*time.Second, 6000+n*group+i)
		}
	}
	require.EqualValues(t, tries, w.tally(MonitorTallyTALLY_FLOWS_FULL), "there is room for each")
	require.EqualValues(t, groups*group, w.tally(MonitorTallyTALLY_FLOWS_EVICTED))
	ports := w.flowPorts()
	for port := range uint16(busy) {
		require.Contains(t, ports, 1+port, "it is not silent")
	}
	for i := range uint16(groups * group) {
		require.Contains(t, ports, 6000+i)
	}
	closed := 0
	for _, line := range w.got() {
		if strings.HasSuffix(line, ": timeout from expiry") {
			closed++
		}
	}
	require.Equal(t, groups*group, closed)
}

// Hosts answer Initials and pings with false sources, too.
func TestAnswersDoNotKeepFlows(t *testing.T) {
	w := watching(t, MonitorSettings{Quic: 1, Icmp: 1})
	show := func(packet []byte) { w.show(MonitorProgEgress, w.now, wire.Frame(packet)) }
	initial := clientToInit.Datagram()
	answer := wire.Long{Destination: clientID, Source: serverID}.Datagram()
	show(wire.UDP(client, quicServer, initial))
	show(wire.UDP(quicServer, client, answer))
	show(wire.UDP(client, quicServer, wire.Long{
		Type: wire.Handshake, Destination: serverID, Source: clientID,
	}.Datagram()))
	for port := range uint16(testLimits.Flows) {
		from := withPort(client, 2000+port)
		show(wire.UDP(from, quicServer, initial))
		show(wire.UDP(quicServer, from, answer))
		show(wire.Echo{ID: 10_000 + port}.Between(client.Addr(), server.Addr()))
		show(wire.Echo{ID: 10_000 + port, Reply: true}.Between(server.Addr(), client.Addr()))
	}
	require.Zero(t, w.tally(MonitorTallyTALLY_FLOWS_FULL))
	require.EqualValues(t, testLimits.Flows+1, w.tally(MonitorTallyTALLY_FLOWS_EVICTED))
	require.Contains(t, w.flowPorts(), client.Port(), "the confirmed connection")
}

// Who sends Initials with false sources sees no answers, and can only make up the ID of his next packet.
func TestMadeUpConnectionIDsDoNotKeepFlows(t *testing.T) {
	w := watching(t, MonitorSettings{Quic: 1})
	show := func(packet []byte) { w.show(MonitorProgEgress, w.now, wire.Frame(packet)) }
	initial := clientToInit.Datagram()
	answer := wire.Long{Destination: clientID, Source: serverID}.Datagram()
	reply := wire.Long{Type: wire.Handshake, Destination: []byte("made up"), Source: clientID}.Datagram()
	for port := range uint16(2 * testLimits.Flows) {
		from := withPort(client, 2000+port)
		show(wire.UDP(from, quicServer, initial))
		if port%2 == 0 {
			show(wire.UDP(quicServer, from, answer))
		}
		show(wire.UDP(from, quicServer, reply))
		show(wire.UDP(quicServer, from, wire.Short(false, clientID, 0, 100)))
		show(wire.UDP(from, quicServer, reply))
	}
	require.Zero(t, w.tally(MonitorTallyTALLY_FLOWS_FULL))
	require.EqualValues(t, testLimits.Flows, w.tally(MonitorTallyTALLY_FLOWS_EVICTED))
}

// A flow whose ends begin another connection is not confirmed any more, and gives way.
func TestReopenedFlowsGiveWay(t *testing.T) {
	w := watching(t, MonitorSettings{Quic: 1})
	show := func(packet []byte) { w.show(MonitorProgEgress, w.now, wire.Frame(packet)) }
	each := func(show func(from netip.AddrPort)) {
		for port := range uint16(testLimits.Flows) {
			show(withPort(client, 2000+port))
		}
	}
	each(func(from netip.AddrPort) {
		show(wire.UDP(from, quicServer, clientToInit.Datagram()))
		show(wire.UDP(quicServer, from, wire.Long{Destination: clientID, Source: serverID}.Datagram()))
		show(wire.UDP(from, quicServer, wire.Long{
			Type: wire.Handshake, Destination: serverID, Source: clientID,
		}.Datagram()))
	})
	another := func() { show(wire.UDP(withPort(client, 1), quicServer, clientToInit.Datagram())) }
	for range testLimits.Flows {
		another()
	}
	require.EqualValues(t, testLimits.Flows, w.tally(MonitorTallyTALLY_FLOWS_FULL), "all are confirmed")

	each(func(from netip.AddrPort) {
		show(wire.UDP(from, quicServer, wire.Long{Destination: randomID, Source: []byte{9}}.Datagram()))
	})
	another()
	require.EqualValues(t, 1, w.tally(MonitorTallyTALLY_FLOWS_EVICTED))
	require.Contains(t, w.flowPorts(), uint16(1))
	require.NotContains(t, w.flowPorts(), uint16(2000), "the one that was opened first")
}

// After more data than sequence numbers tell apart, an ACK of the newest still confirms the flow.
func TestFlowsAreConfirmedLate(t *testing.T) {
	const step = 1 << 29
	for steps := range uint32(9) {
		w := watching(t, MonitorSettings{Tcp: 1}, MonitorProgEgress, MonitorProgExpireFlows)
		for i := range steps + 1 {
			w.show(MonitorProgEgress, ms(float64(i)), wire.Frame(data(float64(i), i*step, 100+i).packet))
		}
		w.show(MonitorProgEgress, ms(10), wire.Frame(ack(10, steps*step+100, 100+steps).packet))
		w.expire(40*time.Second, MonitorProgExpireFlows)
		require.Contains(t, w.flowPorts(), client.Port(), "%d steps", steps)
	}
}
