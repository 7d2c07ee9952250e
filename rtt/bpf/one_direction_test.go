//go:build linux

package bpf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

func TestHandshakesOfOneDirection(t *testing.T) {
	const tcpPair = "handshake 10.0.0.2:80>10.0.0.1:1000"
	const quicPair = "handshake 10.0.0.2:443>10.0.0.1:1000"
	syn := sent(0, wire.TCP{Seq: 99, Flags: wire.SYN})
	third := sent(30, wire.TCP{Seq: 100, Ack: 1, Flags: wire.ACK})
	again, later := syn, third
	again.at, later.at = ms(10), ms(50)
	initial := clientToInit.Datagram()
	reply := wire.Long{Type: wire.Handshake, Destination: serverID, Source: clientID, Length: 80}.Datagram()
	for name, test := range map[string]struct {
		packets []moment
		want    []string
		tally   MonitorTally
	}{
		"TCP, of the client": {
			[]moment{syn, third, later}, []string{"30ms +30ms " + tcpPair + " one direction"},
			MonitorTallyTALLY_RTTS_ONE_DIRECTION,
		},
		"TCP, SYN sent again": {[]moment{syn, again, third}, nil, 0},
		"TCP, of the server": {
			[]moment{answer(0, wire.TCP{Seq: 9, Ack: 100, Flags: wire.SYN | wire.ACK}),
				answer(9, wire.TCP{Seq: 10, Ack: 100, Flags: wire.ACK})}, nil, 0,
		},
		"TCP, reset":             {[]moment{syn, sent(9, wire.TCP{Seq: 100, Flags: wire.RST | wire.ACK})}, nil, 0},
		"TCP, data without ACKs": {[]moment{data(0, 0, 100), data(9, 100, 101), data(20, 200, 102)}, nil, 0},
		"QUIC, of the client": {
			[]moment{up(0, initial), up(25, reply), up(26, reply)},
			[]string{"25ms +25ms " + quicPair + " one direction"}, MonitorTallyTALLY_RTTS_ONE_DIRECTION,
		},
		"QUIC, a second Initial of the same flight": {
			[]moment{up(0, initial), up(1, initial), up(25, reply)},
			[]string{"25ms +25ms " + quicPair + " one direction"}, MonitorTallyTALLY_RTTS_ONE_DIRECTION,
		},
		"QUIC, Initial sent again": {
			[]moment{up(0, initial), up(300, initial), up(325, reply)}, nil, MonitorTallyTALLY_RTTS_AMBIGUOUS,
		},
		"QUIC, of the server": {
			[]moment{down(0, wire.Long{Destination: clientID, Source: serverID}.Datagram()),
				down(20, wire.Long{Type: wire.Handshake, Destination: clientID, Source: serverID}.Datagram())}, nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := watching(t, MonitorSettings{Tcp: 1, Quic: 1, Syn: 1})
			w.see(test.packets...)
			require.Equal(t, test.want, w.rtts())
			if test.tally != 0 {
				require.EqualValues(t, 1, w.tally(test.tally))
			}
			require.Zero(t, w.tally(MonitorTallyTALLY_RTTS))
		})
	}
}

// spinningAlone shows the 1-RTT packets of one side of a connection, after the long headers that it sends.
func spinningAlone(t *testing.T, path wire.SpinPath, client bool) *watch {
	w := watching(t, MonitorSettings{Quic: 1})
	rtt := 2 * (path.ToServer + path.ToClient)
	first := up(0, clientToInit.Datagram())
	if !client {
		first = down(0, wire.Long{Destination: clientID, Source: serverID}.Datagram())
	}
	w.show(MonitorProgEgress, 0, wire.Frame(first.packet))
	if client {
		reply := wire.Long{Type: wire.Handshake, Destination: serverID, Source: clientID}
		w.show(MonitorProgEgress, rtt, wire.Frame(up(0, reply.Datagram()).packet))
	}
	w.got()
	w.showSpinsAlone(rtt, path, client)
	return w
}

// showSpinsAlone shows the 1-RTT packets of one side of a connection, from a time on.
func (w *watch) showSpinsAlone(from time.Duration, path wire.SpinPath, client bool) {
	id := clientID
	if client {
		id = serverID
	}
	for i, p := range path.Packets() {
		if p.FromClient != client {
			continue
		}
		short := wire.Short(p.Value, id, byte(i*7), 100)
		packet := down(0, short).packet
		if client {
			packet = up(0, short).packet
		}
		w.show(MonitorProgEgress, from+p.At, wire.Frame(packet))
	}
}

// The period of one direction's spin bit is the RTT of the whole path, also where packets overtake others.
func TestSpinBitOfOneDirection(t *testing.T) {
	reordered := steady
	reordered.Reorder, reordered.ReorderBy = 0.02, 3*time.Millisecond
	for name, path := range map[string]wire.SpinPath{"in order": steady, "reordered": reordered} {
		for _, client := range []bool{true, false} {
			w := spinningAlone(t, path, client)
			require.Equal(t, MonitorSpinClassSPIN_SPINNING, w.class(), name)
			samples := w.spins()
			// 2 s at an RTT of 50 ms, less the 16 edges until the bit is classified.
			require.InDelta(t, 2000/50-16, len(samples), 4, name)
			for _, s := range samples {
				require.InDelta(t, 50*time.Millisecond, time.Duration(s.Rtt), float64(8*time.Millisecond), name)
				require.Zero(t, s.FarRtt)
				require.EqualValues(t, MonitorEventFlagEVENT_ONE_DIRECTION, s.Flags)
			}
		}
	}
	for _, mode := range []wire.Spin{wire.SpinRandom, wire.SpinConstant} {
		path := steady
		path.Client, path.Server = mode, mode
		w := spinningAlone(t, path, true)
		require.Empty(t, w.spins())
		require.NotEqual(t, MonitorSpinClassSPIN_SPINNING, w.class())
	}
}

// An end that pauses delays an edge. The RTTs after that are as before.
func TestSpinBitOfOneDirectionAfterPause(t *testing.T) {
	w := spinningAlone(t, steady, false)
	before := w.spins()
	w.showSpinsAlone(time.Minute, steady, false)
	after := w.spins()
	require.Greater(t, len(after), len(before))
	for _, s := range after {
		require.Less(t, time.Duration(s.Rtt), 58*time.Millisecond)
	}
}

// aggregated returns the RTTs of each aggregate: its address, flags, number of RTTs and their sum.
func (w *watch) aggregated() (lines []string) {
	var key MonitorPrefixKey
	var e MonitorRttEntry
	all := w.m.Maps[MonitorMapPrefixRtts].Iterate()
	for all.Next(&key, &e) {
		for _, p := range e.Periods {
			if p.Count > 0 {
				lines = append(lines,
					fmt.Sprintf("%v %d: %d, %v", addressOf(&key), key.Flags, p.Count, time.Duration(p.Sum)))
			}
		}
	}
	require.NoError(w.t, all.Err())
	slices.Sort(lines)
	return lines
}

// addressOf returns the address of a prefix that is a host.
func addressOf(key *MonitorPrefixKey) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(key.Prefix))
	return netip.AddrFrom4(b)
}

// RTTs of the whole path are a kind of their own, of the prefix whose packets are seen, or of the other one.
func TestOneDirectionIsAggregated(t *testing.T) {
	const path = MonitorPrefixFlagPREFIX_ONE_DIRECTION
	acks := append(opened(), echo(100, 1001, 100), echo(600, 2001, 590))
	both := append(slices.Clone(acks), ack(640, 100, 637), data(700, 100, 800), ack(712, 200, 800))
	initial := clientToInit.Datagram()
	reply := wire.Long{Type: wire.Handshake, Destination: serverID, Source: clientID, Length: 80}.Datagram()
	for name, test := range map[string]struct {
		settings MonitorSettings
		packets  []moment
		want     []string
	}{
		"TCP": {MonitorSettings{}, acks, []string{fmt.Sprintf("10.0.0.1 %d: 3, 100ms", path)}},
		"TCP, of the receiver": {
			MonitorSettings{Reverse: 1}, acks, []string{fmt.Sprintf("10.0.0.2 %d: 3, 100ms", path)},
		},
		"TCP, of both, and not divided by load": {
			MonitorSettings{Parts: 1, Load: 1}, acks,
			[]string{fmt.Sprintf("10.0.0.1 %d: 3, 100ms", path), fmt.Sprintf("10.0.0.2 %d: 3, 100ms", path)},
		},
		"TCP, the other direction is seen later": {
			MonitorSettings{}, both, []string{fmt.Sprintf("10.0.0.1 %d: 3, 100ms", path), "10.0.0.2 0: 1, 12ms"},
		},
		"QUIC": {
			MonitorSettings{}, []moment{up(0, initial), up(25, reply)},
			[]string{fmt.Sprintf("10.0.0.1 %d: 1, 25ms", path)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.settings.Tcp, test.settings.Quic, test.settings.Syn = 1, 1, 1
			test.settings.Aggregate, test.settings.Ipv4Mask = 1, 0xffffffff
			w := watching(t, test.settings)
			w.see(test.packets...)
			require.Equal(t, test.want, w.aggregated())
		})
	}
}

// A prefix may have been forgotten since the packet before: the RTT then begins it again.
func TestOneDirectionBeginsAPrefix(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1, Syn: 1, Aggregate: 1, Ipv4Mask: 0xffffffff})
	w.see(append(opened(), echo(100, 1001, 100))...)
	require.Len(t, w.aggregated(), 1)
	for _, name := range []string{MonitorMapPrefixTraffic, MonitorMapPrefixRtts} {
		var key MonitorPrefixKey
		for w.m.Maps[name].NextKey(nil, &key) == nil {
			require.NoError(t, w.m.Maps[name].Delete(&key))
		}
	}
	later := echo(41_000, 2001, 40_990)
	w.see(later)
	require.Equal(t, []string{fmt.Sprintf("10.0.0.1 %d: 1, 40ms", MonitorPrefixFlagPREFIX_ONE_DIRECTION)},
		w.aggregated())
	require.Zero(t, w.tally(MonitorTallyTALLY_PREFIXES_FULL))
}
