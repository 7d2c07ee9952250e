//go:build linux

package bpf

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

var (
	client = netip.MustParseAddrPort("10.0.0.1:1000")
	server = netip.MustParseAddrPort("10.0.0.2:80")
)

// A moment is a packet of a test and when it is seen.
type moment struct {
	at     time.Duration
	packet []byte
}

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// sent is a segment of the client, answer one of the server.
func sent(at float64, t wire.TCP) moment   { return moment{ms(at), t.Between(client, server)} }
func answer(at float64, t wire.TCP) moment { return moment{ms(at), t.Between(server, client)} }

// data is 100 bytes of the client from a sequence number on, with a TSval.
func data(at float64, seq, val uint32) moment {
	return sent(at, wire.TCP{Seq: seq, Ack: 1, Flags: wire.ACK, Timestamps: true, Val: val, Ecr: 1, Length: 100})
}

// ack is a pure ACK of the server with a TSecr.
func ack(at float64, number, ecr uint32) moment {
	return answer(at, wire.TCP{Seq: 1, Ack: number, Flags: wire.ACK, Timestamps: true, Val: 1, Ecr: ecr})
}

// tcpTest is a row of the tables of TCP tests.
type tcpTest struct {
	settings MonitorSettings
	packets  []moment
	want     []string // RTTs; all events if flows is set
	flows    bool
	tallies  map[MonitorTally]uint64
}

func (test tcpTest) run(t *testing.T) {
	test.settings.Tcp = 1
	w := watching(t, test.settings)
	w.see(test.packets...)
	if test.flows {
		require.Equal(t, test.want, w.got())
	} else {
		require.Equal(t, test.want, w.rtts())
	}
	for which, want := range test.tallies {
		require.Equal(t, want, w.tally(which), Tallies[which].Label)
	}
}

func TestTCPTimestamps(t *testing.T) {
	const pair = "timestamp 10.0.0.2:80>10.0.0.1:1000"
	const reverse = "timestamp 10.0.0.1:1000>10.0.0.2:80"
	for name, test := range map[string]tcpTest{
		"the first timestamp of a flow that was there before is not stamped": {
			packets: []moment{data(0, 0, 100), ack(10, 100, 100)},
			want:    nil,
		},
		"first packet of a timestamp, first reply": {
			packets: []moment{data(0, 0, 100), data(10, 100, 101), ack(30, 200, 101), ack(31, 200, 101)},
			want:    []string{"30ms +20ms " + pair},
		},
		"each direction by itself": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101),
				answer(15, wire.TCP{
					Seq: 1, Ack: 200, Flags: wire.ACK, Timestamps: true, Val: 500, Ecr: 101, Length: 10,
				}),
				answer(16, wire.TCP{
					Seq: 11, Ack: 200, Flags: wire.ACK, Timestamps: true, Val: 501, Ecr: 101, Length: 10,
				}),
				sent(18, wire.TCP{Seq: 200, Ack: 21, Flags: wire.ACK, Timestamps: true, Val: 102, Ecr: 501}),
			},
			want: []string{"15ms +5ms " + pair, "18ms +2ms " + reverse},
		},
		"every new timestamp, answered in any order": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101), data(20, 200, 102), data(30, 300, 103),
				ack(50, 200, 101), ack(61, 400, 103), ack(62, 300, 102),
			},
			want: []string{"50ms +40ms " + pair, "61ms +31ms " + pair, "62ms +42ms " + pair},
		},
		"timestamps wrap": {
			packets: []moment{
				data(0, 0, 0xffffffff), data(10, 100, 0), ack(15, 200, 0), data(20, 200, 1), ack(26, 300, 1),
			},
			want: []string{"15ms +5ms " + pair, "26ms +6ms " + pair},
		},
		"a timestamp that goes back is not new": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 102), data(11, 200, 101), ack(15, 300, 101), ack(16, 300, 102),
			},
			want: []string{"16ms +5ms " + pair},
		},
		"sequence numbers wrap": {
			packets: []moment{
				data(0, 0xffffff00, 100), data(10, 0xffffff64, 101), data(20, 0xffffffc8, 102), ack(25, 44, 102),
			},
			want: []string{"25ms +5ms " + pair},
		},
		"pure ACKs are not stamped": {
			packets: []moment{
				data(0, 0, 100),
				sent(10, wire.TCP{Seq: 100, Ack: 1, Flags: wire.ACK, Timestamps: true, Val: 101, Ecr: 1}),
				ack(20, 100, 101),
			},
			want: nil,
		},
		"replies without ACK answer nothing": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101), answer(20, wire.TCP{Seq: 1, Timestamps: true, Val: 1, Ecr: 101}),
			},
			want: nil,
		},
		"an echo of what was never sent": {
			packets: []moment{data(0, 0, 100), data(10, 100, 101), ack(20, 200, 77), ack(21, 200, 3000)},
			want:    nil,
		},
		"a reply after the stamp's lifetime": {
			packets: []moment{data(0, 0, 100), data(10, 100, 101), ack(10011, 200, 101)},
			want:    nil,
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RTTS_LATE: 1},
		},
		"a reply before the newest packet, as in a capture whose times are out of order": {
			packets: []moment{data(0, 0, 100), data(10, 100, 101), data(10.2, 200, 101), ack(10.1, 300, 101)},
			want:    nil,
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RTTS_LATE: 1},
		},
		"a withdrawn stamp leaves the others, also if a reply answers neither": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101), data(11, 200, 102), data(11.5, 200, 102), ack(12, 100, 100),
				ack(30, 200, 101),
			},
			want:    []string{"30ms +20ms " + pair},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_STAMPS_AMBIGUOUS: 1},
		},
		"other options before the timestamps": {
			packets: []moment{
				data(0, 0, 100),
				sent(10, wire.TCP{
					Seq: 100, Flags: wire.ACK, Options: []byte{2, 4, 5, 180, 4, 2, 1, 3, 3, 7}, Timestamps: true,
					Val: 101, Length: 5,
				}),
				answer(17, wire.TCP{
					Ack: 105, Flags: wire.ACK, Options: []byte{5, 10, 0, 0, 0, 0, 0, 0, 0, 0}, Timestamps: true,
					Ecr: 101,
				}),
			},
			want: []string{"17ms +7ms " + pair},
		},
	} {
		t.Run(name, test.run)
	}
}

// Cases in which an echoed timestamp alone gives a wrong RTT.
func TestTCPTimestampsBeyondTheEcho(t *testing.T) {
	const pair = "timestamp 10.0.0.2:80>10.0.0.1:1000"
	for name, test := range map[string]tcpTest{
		"sent again within one timestamp tick: the echo may be of either": {
			packets: []moment{data(0, 0, 100), data(10, 100, 101), data(60, 100, 101), ack(80, 200, 101)},
			want:    nil,
			tallies: map[MonitorTally]uint64{
				MonitorTallyTALLY_STAMPS_AMBIGUOUS: 1, MonitorTallyTALLY_RETRANSMISSIONS: 1,
			},
		},
		"and the next timestamp may be stamped at once, in spite of the rate limit": {
			settings: MonitorSettings{StampInterval: uint64(time.Second)},
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101), data(60, 100, 101), ack(80, 200, 101), data(90, 200, 102),
				ack(95, 300, 102),
			},
			want: []string{"95ms +5ms " + pair},
		},
		"sent again with a newer timestamp: the echo says which": {
			packets: []moment{data(0, 0, 100), data(10, 100, 101), data(60, 100, 102), ack(80, 200, 102)},
			want:    []string{"80ms +20ms " + pair},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RETRANSMISSIONS: 1},
		},
		"the echo of a retransmission says nothing of what was sent before it": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101), data(20, 200, 102),
				data(60, 100, 103), // 100 was lost; 200 waits for it at the receiver
				ack(80, 300, 103),
			},
			want: []string{"80ms +20ms " + pair},
		},
		"the timestamp changes between the segments of a delayed ACK": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101),
				data(40, 200, 102), // arrives, and makes the receiver acknowledge both with the first one's timestamp
				ack(60, 300, 101),
			},
			want:    []string{"60ms +20ms " + pair},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RTTS_TIGHTENED: 1},
		},
		"the same while more is under way": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101), data(40, 200, 102), data(41, 300, 102), ack(60, 300, 101),
			},
			want: []string{"60ms +20ms " + pair},
		},
		"the first ACK with the timestamp is lost, the next covers a later segment of the same tick": {
			packets: []moment{data(0, 0, 100), data(10, 100, 101), data(18, 200, 101), ack(38, 300, 101)},
			want:    []string{"38ms +20ms " + pair},
		},
		"a retransmission does not tighten: either copy may have arrived": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101), data(20, 200, 102), data(58, 200, 103), ack(60, 300, 101),
			},
			want: []string{"60ms +50ms " + pair},
		},
		"a keep-alive is not a retransmission": {
			packets: []moment{
				data(0, 0, 100), data(10, 100, 101),
				sent(11, wire.TCP{Seq: 199, Ack: 1, Flags: wire.ACK, Timestamps: true, Val: 101, Length: 1}),
				ack(20, 200, 101),
			},
			want:    []string{"20ms +10ms " + pair},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RETRANSMISSIONS: 0},
		},
		"a sequence number far from all others starts anew": {
			packets: []moment{
				data(0, 0, 100), data(10, 0x70000000, 101), ack(20, 0x70000064, 101), data(30, 0x70000064, 102),
				ack(35, 0x700000c8, 102),
			},
			want: []string{"20ms +10ms " + pair, "35ms +5ms " + pair},
		},
	} {
		t.Run(name, test.run)
	}
}
