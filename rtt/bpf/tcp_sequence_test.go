//go:build linux

package bpf

import (
	"testing"
	"time"

	"sluice/rtt/internal/wire"
)

// plain is 100 bytes of the client from a sequence number on, without timestamps; plainACK a pure ACK of the server.
func plain(at float64, seq uint32) moment {
	return sent(at, wire.TCP{Seq: seq, Ack: 1, Flags: wire.ACK, Length: 100})
}

func plainACK(at float64, number uint32) moment {
	return answer(at, wire.TCP{Seq: 1, Ack: number, Flags: wire.ACK})
}

func TestTCPSequence(t *testing.T) {
	const pair = "sequence 10.0.0.2:80>10.0.0.1:1000"
	limited := MonitorSettings{StampInterval: uint64(time.Second)}
	for name, test := range map[string]tcpTest{
		"the first segment of a flow that was there before may have been sent before": {
			packets: []moment{plain(0, 0), plainACK(10, 100)},
			want:    nil,
		},
		"each segment, each ACK": {
			packets: []moment{plain(0, 0), plain(10, 100), plain(20, 200), plainACK(30, 200), plainACK(45, 300)},
			want:    []string{"30ms +20ms " + pair, "45ms +25ms " + pair},
		},
		"a cumulative ACK answers the segment it ends with": {
			packets: []moment{
				plain(0, 0), plain(10, 100), plain(20, 200), plain(21, 300), plainACK(30, 300), plainACK(31, 400),
			},
			want: []string{"30ms +10ms " + pair, "31ms +10ms " + pair},
		},
		"a duplicate ACK answers nothing": {
			packets: []moment{plain(0, 0), plain(10, 100), plainACK(30, 200), plainACK(31, 200), plainACK(32, 200)},
			want:    []string{"30ms +20ms " + pair},
		},
		"Karn: what was sent twice, and all that waited for it, is ambiguous": {
			packets: []moment{
				plain(0, 0), plain(10, 100), plain(20, 200), plain(70, 100), plainACK(80, 200), plainACK(90, 300),
				plain(100, 300), plainACK(110, 400),
			},
			want:    []string{"110ms +10ms " + pair},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RTTS_AMBIGUOUS: 2},
		},
		"an ACK beyond what was sent answers nothing": {
			packets: []moment{plain(0, 0), plain(10, 100), plainACK(20, 5000), plainACK(21, 200)},
			want:    []string{"21ms +11ms " + pair},
		},
		"an ACK inside a segment answers nothing": {
			packets: []moment{plain(0, 0), plain(10, 100), plainACK(20, 150), plainACK(21, 200)},
			want:    []string{"21ms +11ms " + pair},
		},
		"rate limit: one segment a second, answered exactly": {
			settings: limited,
			packets: []moment{
				plain(0, 0), plain(10, 100), plain(11, 200), plainACK(20, 200), plainACK(21, 300), plain(500, 300),
				plainACK(510, 400),
			},
			want: []string{"20ms +10ms " + pair},
		},
		"an ACK that skips the stamped segment lets the next one try": {
			settings: limited,
			packets: []moment{
				plain(0, 0), plain(10, 100), plain(11, 200), plain(12, 300), plainACK(20, 300), plain(30, 400),
				plainACK(41, 500),
			},
			want: []string{"41ms +11ms " + pair},
		},
		"an ACK of everything is as good as one of the stamped segment": {
			settings: limited,
			packets:  []moment{plain(0, 0), plain(10, 100), plain(11, 200), plainACK(20, 300)},
			want:     []string{"20ms +9ms " + pair},
		},
		"a reply after the lifetime of a stamp": {
			packets: []moment{plain(0, 0), plain(10, 100), plainACK(10011, 200)},
			want:    nil,
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RTTS_LATE: 1},
		},
		"a reply before its segment, as in a capture whose times are out of order": {
			packets: []moment{plain(0, 0), plain(10, 100), plainACK(9, 200)},
			want:    nil,
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RTTS_LATE: 1},
		},
		"sequence numbers wrap": {
			packets: []moment{
				plain(0, 0xffffff38), plain(10, 0xffffff9c), plain(20, 0), plainACK(30, 0), plainACK(31, 100),
			},
			want: []string{"30ms +20ms " + pair, "31ms +11ms " + pair},
		},
		"a FIN counts in sequence space": {
			packets: []moment{
				plain(0, 0), plain(10, 100), sent(11, wire.TCP{Seq: 200, Flags: wire.FIN | wire.ACK}),
				plainACK(20, 201),
			},
			want: []string{"20ms +9ms " + pair},
		},
		"a handshake without timestamps": {
			settings: MonitorSettings{Syn: 1},
			packets: []moment{
				sent(0, wire.TCP{Seq: 99, Flags: wire.SYN}),
				answer(10, wire.TCP{Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK}),
				sent(13, wire.TCP{Seq: 100, Ack: 500, Flags: wire.ACK}),
			},
			want: []string{"10ms +10ms " + pair, "13ms +3ms sequence 10.0.0.1:1000>10.0.0.2:80"},
		},
		"a SYN sent again is ambiguous without timestamps": {
			settings: MonitorSettings{Syn: 1},
			packets: []moment{
				sent(0, wire.TCP{Seq: 99, Flags: wire.SYN}), sent(1000, wire.TCP{Seq: 99, Flags: wire.SYN}),
				answer(1010, wire.TCP{Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK}),
			},
			want: nil,
		},
		"a server without timestamps answers a SYN that offers them": {
			settings: MonitorSettings{Syn: 1},
			packets: []moment{
				sent(0, wire.TCP{Seq: 99, Flags: wire.SYN, Timestamps: true, Val: 7}),
				answer(10, wire.TCP{Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK}),
				plain(20, 100), plainACK(28, 200),
			},
			want: []string{"10ms +10ms " + pair, "28ms +8ms " + pair},
		},
	} {
		t.Run(name, test.run)
	}
}
