//go:build linux

package bpf

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// opened is a handshake of 30 ms with only the client's packets seen. At its end the server's clock was at serverClock.
func opened() []moment {
	return []moment{
		sent(0, wire.TCP{Seq: 99, Flags: wire.SYN, Timestamps: true, Val: 7}),
		sent(30, wire.TCP{Seq: 100, Ack: 1, Flags: wire.ACK, Timestamps: true, Val: 37, Ecr: serverClock}),
	}
}

const serverClock = 0xffffff00 // wraps after a quarter of a second

// echo is a pure ACK of the client, seen at a number of ms after the handshake, of what the server has sent when its
// clock had ticked so many times since.
func echo(after float64, ack, ticks uint32) moment {
	return sent(30+after, wire.TCP{
		Seq: 100, Ack: ack, Flags: wire.ACK, Timestamps: true, Val: 37 + uint32(uint64(after)),
		Ecr: serverClock + ticks,
	})
}

// request is 50 bytes of the client at a number of ms after the handshake.
func request(after float64, ack, ticks uint32) moment {
	return sent(30+after, wire.TCP{
		Seq: 100, Ack: ack, Flags: wire.ACK, Timestamps: true, Val: 37 + uint32(after), Ecr: serverClock + ticks,
		Length: 50,
	})
}

const day = 24 * 3600 * 1000 // ms

// ticksAfter is a clock's advance in a number of ms. It wraps.
func ticksAfter(ms uint64) uint32 { return uint32(ms) }

func TestTCPTimestampsOfOneDirection(t *testing.T) {
	const handshake = "30ms +30ms handshake 10.0.0.2:80>10.0.0.1:1000 one direction"
	const pair = " timestamp 10.0.0.2:80>10.0.0.1:1000 one direction"
	fin, plain := echo(100, 1001, 100), opened()
	fin.packet = wire.TCP{
		Seq: 100, Ack: 1001, Flags: wire.ACK | wire.FIN, Timestamps: true, Val: 137, Ecr: serverClock + 100,
	}.Between(client, server)
	plain[1] = sent(30, wire.TCP{Seq: 100, Ack: 1, Flags: wire.ACK})
	for name, test := range map[string]tcpTest{
		"as far as at the handshake, then behind a queue, then again without": {
			packets: []moment{echo(100, 1001, 100), echo(500, 2001, 460), echo(700.5, 3001, 700)},
			want:    []string{"130ms +30ms" + pair, "530ms +70ms" + pair, "730.5ms +30.5ms" + pair},
		},
		"the first ACK with a timestamp counts": {
			packets: []moment{echo(100, 1001, 100), echo(110, 2001, 100), echo(600, 3001, 590)},
			want:    []string{"130ms +30ms" + pair, "630ms +40ms" + pair},
		},
		"an ACK of nothing new":             {packets: []moment{echo(100, 1, 100)}},
		"data, and the ACK that repeats it": {packets: []moment{request(100, 1001, 100), echo(110, 2001, 100)}},
		"a FIN":                             {packets: []moment{fin}},
		"the handshake has waited in a queue of 10 ms": {
			packets: []moment{echo(100, 1001, 110), echo(600, 2001, 605)},
			want:    []string{"130ms +20ms" + pair, "630ms +25ms" + pair},
		},
		"a path that is shorter than its handshake's RTT is a clock": {
			packets: []moment{echo(100, 1001, 135), echo(600, 2001, 635)},
			want:    []string{"130ms +30ms" + pair, "630ms +30ms" + pair},
		},
		"a clock that ticks every 4 ms": {
			packets: []moment{echo(100, 1001, 25), echo(4000, 2001, 1000)},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_ECHOES_OTHER_CLOCK: 2},
		},
		"a clock that ticks every 2 ms, and ACKs that jitter": {
			packets: []moment{echo(20_000, 1001, 10_001), echo(40_000, 2001, 20_001)},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_ECHOES_OTHER_CLOCK: 2},
		},
		"a clock that ticks every microsecond": {
			packets: []moment{echo(100, 1001, 100_000), echo(4000, 2001, 4_000_000)},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_ECHOES_OTHER_CLOCK: 2},
		},
		"more than ten seconds": {
			packets: []moment{echo(90_000, 1001, 79_000)},
			tallies: map[MonitorTally]uint64{MonitorTallyTALLY_RTTS_LATE: 1},
		},
		"a rate limit": {
			settings: MonitorSettings{StampInterval: uint64(time.Second)},
			packets:  []moment{echo(100, 1001, 100), echo(1100, 2001, 1080), echo(1200, 3001, 1170)},
			want:     []string{"1.13s +50ms" + pair},
		},
		"a rate limit, and requests between the ACKs": {
			settings: MonitorSettings{StampInterval: uint64(100 * time.Millisecond)},
			packets: []moment{
				request(50, 1, 0), echo(110, 1001, 110), request(200, 1001, 110), echo(250, 2001, 240),
				request(350, 2001, 240), echo(360, 3001, 340),
			},
			want: []string{"140ms +30ms" + pair, "280ms +40ms" + pair, "390ms +50ms" + pair},
		},
		"the clock wraps twice": {
			packets: []moment{
				echo(20*day, 1001, ticksAfter(20*day)), echo(40*day, 2001, ticksAfter(40*day)),
				echo(60*day+5, 3001, ticksAfter(60*day)), echo(60*day+100, 4001, ticksAfter(60*day+80)),
			},
			want: []string{
				"480h0m0.03s +30ms" + pair, "960h0m0.03s +30ms" + pair, "1440h0m0.035s +30ms" + pair,
				"1440h0m0.13s +45ms" + pair,
			},
		},
		"the other direction is seen later": {
			packets: []moment{
				echo(100, 1001, 100), ack(140, 100, 137), echo(600, 2001, 590), data(700, 100, 800), ack(712, 200, 800),
			},
			want: []string{"130ms +30ms" + pair, "712ms +12ms timestamp 10.0.0.2:80>10.0.0.1:1000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.settings.Syn = 1
			test.packets = append(opened(), test.packets...)
			test.want = append([]string{handshake}, test.want...)
			test.run(t)
		})
	}
	t.Run("a handshake without timestamps", func(t *testing.T) {
		tcpTest{
			settings: MonitorSettings{Syn: 1}, packets: append(plain, echo(100, 1001, 100)), want: []string{handshake},
		}.run(t)
	})
}

// A clock that is off makes all delays grow or shrink. An RTT is wrong by as much as they change in two minutes.
func TestTCPClockOfOneDirectionIsOff(t *testing.T) {
	const off = 100e-6
	for name, rate := range map[string]float64{"slow": 1 - off, "fast": 1 + off} {
		t.Run(name, func(t *testing.T) {
			w := watching(t, MonitorSettings{Tcp: 1, Syn: 1})
			w.see(opened()...)
			require.Len(t, w.rtts(), 1, "the handshake")
			for i := range uint32(1800) { // half an hour; every fourth second there is a queue
				left, queue := float64(i+1)*1000, float64(0)
				if i%4 == 3 {
					queue = 40
				}
				p := echo(left+queue, 2+i, uint32(left*rate))
				w.see(p)
				got := w.raw()
				require.Len(t, got, 1)
				wrong := 1 + 120_000*off
				require.InDelta(t, ms(30+queue), time.Duration(got[0].Rtt), float64(ms(wrong)), "after %v ms", left)
			}
		})
	}
}

// A connection that sends nothing for a while stays, and stays while a flood fills the table: without its handshake,
// nothing of it could be measured again.
func TestTCPFlowsOfOneDirectionStay(t *testing.T) {
	const pair = " timestamp 10.0.0.2:80>10.0.0.1:1000 one direction"
	w := watching(t, MonitorSettings{Tcp: 1, Syn: 1}, MonitorProgEgress, MonitorProgExpireFlows)
	w.see(append(opened(), echo(100, 1001, 100))...)
	require.Len(t, w.rtts(), 2)
	w.expire(40*time.Second, MonitorProgExpireFlows)
	w.see(echo(41_000, 2001, 40_990))
	require.Equal(t, []string{"41.03s +40ms" + pair}, w.rtts())

	for port := range uint16(2 * testLimits.Flows) {
		w.show(MonitorProgEgress, w.now, opening(2000+port))
	}
	require.NotZero(t, w.tally(MonitorTallyTALLY_FLOWS_EVICTED))
	w.see(echo(42_000, 3001, 41_980))
	require.Equal(t, []string{"42.03s +50ms" + pair}, w.rtts())
}

// A connection with only its handshake seen gives way, like an unanswered one.
func TestTCPHandshakesOfOneDirectionGiveWay(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1, Syn: 1}, MonitorProgEgress, MonitorProgExpireFlows)
	w.see(opened()...)
	w.expire(40*time.Second, MonitorProgExpireFlows)
	require.EqualValues(t, 1, w.tally(MonitorTallyTALLY_FLOWS_EXPIRED))
}

// A reply that takes longer than a stamp lives gives no RTT of the path, whatever its protocol.
func TestLateRTTsOfOneDirection(t *testing.T) {
	const wait = 10_000 // ms
	reply := wire.Long{Type: wire.Handshake, Destination: serverID, Source: clientID}.Datagram()
	for name, late := range map[string]func(after float64) []moment{
		"TCP": func(after float64) []moment {
			return []moment{syn(0, 7), sent(after, wire.TCP{Seq: 100, Ack: 500, Flags: wire.ACK})}
		},
		"QUIC": func(after float64) []moment {
			return []moment{up(0, clientToInit.Datagram()), up(after, reply)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				after      float64
				rtts, late uint64
			}{{wait, 1, 0}, {wait + 1, 0, 1}} {
				w := watching(t, MonitorSettings{Tcp: 1, Syn: 1, Quic: 1})
				w.see(late(test.after)...)
				require.Len(t, w.rtts(), int(test.rtts))
				require.Equal(t, test.rtts, w.tally(MonitorTallyTALLY_RTTS_ONE_DIRECTION))
				require.Equal(t, test.late, w.tally(MonitorTallyTALLY_RTTS_LATE))
			}
		})
	}
}

// A flow's RTT of the whole path is not kept as an RTT between here and the other host.
func TestRTTsOfThePathAreForgotten(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1, Syn: 1})
	// kept returns the least and the smoothed RTT of the client's packets.
	kept := func() []time.Duration {
		var key MonitorFlowKey
		var f MonitorFlow
		flows := w.m.Maps[MonitorMapFlows].Iterate()
		require.True(t, flows.Next(&key, &f))
		require.NoError(t, flows.Err())
		for i, port := range key.Port {
			if port == htons(client.Port()) {
				return []time.Duration{time.Duration(f.Side[i].MinRtt), time.Duration(f.Side[i].SmoothedRtt)}
			}
		}
		t.Fatal("no side is the client's")
		return nil
	}
	w.see(append(opened(), echo(100, 1001, 100))...)
	require.Equal(t, []time.Duration{ms(30), ms(30)}, kept())
	w.see(ack(140, 100, 137))
	require.Equal(t, []time.Duration{0, 0}, kept())
	w.see(data(700, 100, 800), ack(712, 200, 800))
	require.Equal(t, []time.Duration{ms(12), ms(12)}, kept())
}

// A packet that nobody can answer here takes no room from stamps that may be answered.
func TestStampsOfOneDirection(t *testing.T) {
	const pair = " timestamp 10.0.0.2:80>10.0.0.1:1000"
	segments := func(from, n int) (packets []moment) { // the first timestamp may have been sent before
		for i := from; i < from+n; i++ {
			packets = append(packets, data(float64(i), uint32(100*i), uint32(100+i)))
		}
		return packets
	}
	window := segments(0, 11)
	var rtts []string
	for i := range uint32(11) {
		window = append(window, ack(float64(50+i), 100*i+100, 100+i))
		if i > 0 {
			rtts = append(rtts, fmt.Sprintf("%v +50ms"+pair, ms(float64(50+i))))
		}
	}
	for name, test := range map[string]struct {
		packets          []moment
		want             []string
		stamped, skipped uint64 // packets
	}{
		"a side that has acknowledged a SYN-ACK which did not pass": {
			append(opened(), request(100, 1, 0), request(200, 1, 0)),
			[]string{"30ms +30ms handshake 10.0.0.2:80>10.0.0.1:1000 one direction"}, 1, 2,
		},
		"a side that sends on and on":             {segments(0, 41), nil, 16, 24},
		"an initial window, before its replies":   {window, rtts, 10, 0},
		"a reply after all, which is of no stamp": {append(segments(0, 41), ack(60, 4100, 140)), nil, 16, 24},
		"and the packets after it": {
			append(append(segments(0, 41), ack(60, 4100, 140)), append(segments(70, 1), ack(90, 7100, 170))...),
			[]string{"90ms +20ms" + pair}, 17, 24,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := watching(t, MonitorSettings{Tcp: 1, Syn: 1})
			w.see(test.packets...)
			require.Equal(t, test.want, w.rtts())
			require.Equal(t, test.stamped, w.tally(MonitorTallyTALLY_STAMPS))
			require.Equal(t, test.skipped, w.tally(MonitorTallyTALLY_STAMPS_ONE_DIRECTION))
		})
	}
}
