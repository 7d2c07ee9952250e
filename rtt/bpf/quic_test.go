//go:build linux

package bpf

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

var (
	quicServer   = netip.MustParseAddrPort("10.0.0.2:443")
	randomID     = []byte{1, 2, 3, 4, 5, 6, 7, 8}
	clientID     = []byte{0xc1, 2, 3, 4}
	serverID     = []byte{0x5e, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	clientToInit = wire.Long{Destination: randomID, Source: clientID}
)

func up(at float64, datagram []byte) moment {
	return moment{ms(at), wire.UDP(client, quicServer, datagram)}
}
func down(at float64, datagram []byte) moment {
	return moment{ms(at), wire.UDP(quicServer, client, datagram)}
}

func TestQUICHandshake(t *testing.T) {
	const far = "handshake 10.0.0.2:443>10.0.0.1:1000"
	const near = "handshake 10.0.0.1:1000>10.0.0.2:443"
	const opens = "0s open 10.0.0.2:443>10.0.0.1:1000: first packet from destination"
	initial := clientToInit.Datagram()
	answer := wire.Long{Destination: clientID, Source: serverID}
	reply := wire.Long{Type: wire.Handshake, Destination: serverID, Source: clientID, Length: 80}
	for name, test := range map[string]queryCase{
		"both components": {
			packets: []moment{
				up(0, initial), down(20, answer.Datagram()), up(25, reply.Datagram()), up(26, reply.Datagram()),
				down(45, answer.Datagram()),
			},
			want:     []string{opens, "20ms +20ms " + far, "25ms +5ms " + near},
			outcomes: map[string]uint64{"quic": 5},
		},
		"version 2": {
			packets: []moment{
				up(0, wire.Long{Version: wire.QUICv2, Destination: randomID, Source: clientID}.Datagram()),
				down(20, wire.Long{Version: wire.QUICv2, Destination: clientID, Source: serverID}.Datagram()),
			},
			want:     []string{opens, "20ms +20ms " + far},
			outcomes: map[string]uint64{"quic": 2},
		},
		"a client without a connection ID": {
			packets: []moment{
				up(0, wire.Long{Destination: randomID}.Datagram()), down(20, wire.Long{Source: serverID}.Datagram()),
				up(25, wire.Long{Type: wire.Handshake, Destination: serverID}.Datagram()),
			},
			want:     []string{opens, "20ms +20ms " + far, "25ms +5ms " + near},
			outcomes: map[string]uint64{"quic": 3},
		},
		"Retry answers too": {
			packets: []moment{
				up(0, initial),
				down(20, wire.Long{Type: wire.Retry, Destination: clientID, Source: serverID, Length: 60}.Datagram()),
				up(25, wire.Long{Destination: serverID, Source: clientID}.Datagram()), down(46, answer.Datagram()),
			},
			want:     []string{opens, "20ms +20ms " + far, "25ms +5ms " + near},
			outcomes: map[string]uint64{"quic": 4},
		},
		"a second Initial that was under way does not count as the client's reply": {
			packets:  []moment{up(0, initial), down(20, answer.Datagram()), up(21, initial), up(25, reply.Datagram())},
			want:     []string{opens, "20ms +20ms " + far, "25ms +5ms " + near},
			outcomes: map[string]uint64{"quic": 4},
		},
		"the client's first reply has an ID that only it has seen": {
			packets: []moment{
				up(0, initial), down(20, answer.Datagram()),
				up(25, wire.Long{
					Type: wire.Handshake, Destination: []byte("secret"), Source: clientID, Length: 80,
				}.Datagram()),
			},
			want:     []string{opens, "20ms +20ms " + far, "25ms +5ms " + near},
			outcomes: map[string]uint64{"quic": 3},
		},
		"a server that takes the ID that the client has chosen": {
			packets: []moment{
				up(0, initial), down(20, wire.Long{Destination: clientID, Source: randomID}.Datagram()),
				up(25, wire.Long{
					Type: wire.Handshake, Destination: randomID, Source: clientID, Length: 80,
				}.Datagram()),
			},
			want:     []string{opens, "20ms +20ms " + far, "25ms +5ms " + near},
			outcomes: map[string]uint64{"quic": 3},
		},
		"a flight of two Initials is timed from the first": {
			packets:  []moment{up(0, initial), up(1, initial), down(20, answer.Datagram())},
			want:     []string{opens, "20ms +20ms " + far},
			outcomes: map[string]uint64{"quic": 3},
		},
		"an Initial sent again after a while is ambiguous": {
			packets: []moment{
				up(0, initial), up(999, initial), down(1019, answer.Datagram()), up(1024, reply.Datagram()),
			},
			want:     []string{opens, "1.024s +5ms " + near},
			outcomes: map[string]uint64{"quic": 4},
		},
		"an answer before its question, as in a capture whose times are out of order": {
			packets:  []moment{up(20, initial), down(19, answer.Datagram()), up(25, reply.Datagram())},
			want:     []string{"20ms" + opens[2:], "25ms +6ms " + near},
			outcomes: map[string]uint64{"quic": 3},
		},
		"another connection between the same ports": {
			packets: []moment{
				up(0, initial), down(20, answer.Datagram()), up(25, reply.Datagram()),
				up(100, wire.Long{Destination: randomID, Source: []byte{9}}.Datagram()),
				down(122, wire.Long{Destination: []byte{9}, Source: serverID}.Datagram()),
			},
			want:     []string{opens, "20ms +20ms " + far, "25ms +5ms " + near, "122ms +22ms " + far},
			outcomes: map[string]uint64{"quic": 5},
		},
		"an answer to another connection ID": {
			packets:  []moment{up(0, initial), down(20, wire.Long{Destination: randomID, Source: serverID}.Datagram())},
			outcomes: map[string]uint64{"quic": 2},
		},
		"not created by: a short Initial, other types, other versions, 1-RTT packets": {
			packets: []moment{
				up(0, wire.Long{Destination: randomID, Source: clientID, Length: 1199}.Datagram()),
				up(0, wire.Long{Type: wire.Handshake, Destination: randomID, Source: clientID}.Datagram()),
				up(0, wire.Long{Version: wire.QUICv2, Type: wire.Retry, Destination: randomID}.Datagram()),
				up(0, wire.Long{Version: 0xff00001d, Destination: randomID, Source: clientID}.Datagram()),
				up(0, wire.Short(true, serverID, 0, 100)), up(0, nil),
			},
			outcomes: map[string]uint64{"quic-no-flow": 3, "udp-other": 3},
		},
		"malformed: connection IDs of 21 bytes, or beyond the end": {
			packets: []moment{
				up(0, wire.Long{Destination: make([]byte, 21), Source: clientID}.Datagram()),
				up(0, wire.Long{Destination: randomID, Source: make([]byte, 21)}.Datagram()),
				up(0, initial[:6]), up(0, initial[:13]), up(0, initial[:14]), up(0, initial[:17]),
			},
			outcomes: map[string]uint64{"quic-malformed": 6},
		},
	} {
		t.Run(name, func(t *testing.T) { test.check(t, MonitorSettings{Quic: 1}, MonitorProgEgress) })
	}
}

// Connection IDs of different lengths have different hashes, even if their bytes are the same.
func TestQUICConnectionIDLengths(t *testing.T) {
	for n := range 21 {
		w := watching(t, MonitorSettings{Quic: 1})
		id := bytes.Repeat([]byte{0}, n)
		w.show(MonitorProgEgress, 0, wire.Frame(up(0, wire.Long{Destination: randomID, Source: id}.Datagram()).packet))
		for other := range 21 {
			if other != n {
				w.show(MonitorProgEgress, ms(1), wire.Frame(down(1, wire.Long{
					Destination: make([]byte, other), Source: serverID,
				}.Datagram()).packet))
			}
		}
		require.Empty(t, w.rtts(), n)
		w.show(MonitorProgEgress, ms(2), wire.Frame(down(2, wire.Long{
			Destination: id, Source: serverID,
		}.Datagram()).packet))
		require.Equal(t, []string{"2ms +2ms handshake 10.0.0.2:443>10.0.0.1:1000"}, w.rtts(), n)
	}
}
