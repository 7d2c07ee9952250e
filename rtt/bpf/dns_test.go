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

var resolver = netip.MustParseAddrPort("10.0.0.2:53")

// asked is a query of the client, told a response of the resolver.
func asked(at float64, d wire.DNS) moment {
	return moment{ms(at), wire.UDP(client, resolver, d.Message())}
}

func told(at float64, d wire.DNS) moment {
	d.Response = true
	return moment{ms(at), wire.UDP(resolver, client, d.Message())}
}

func TestDNSOverUDP(t *testing.T) {
	const pair = "query 10.0.0.2:53>10.0.0.1:1000"
	example := wire.DNS{ID: 7, Name: "www.example.org", Type: 28, EDNS: true}
	with := func(change func(*wire.DNS)) wire.DNS {
		d := example
		change(&d)
		return d
	}
	long := strings.Repeat(strings.Repeat("x", 63)+".", 3) + strings.Repeat("y", 61)
	require.Len(t, wire.DNS{Name: long}.Message(), 12+255+4)
	for name, test := range map[string]queryCase{
		"query and response": {
			packets:  []moment{asked(0, example), told(12, example), told(13, example)},
			want:     []string{"12ms +12ms " + pair + " type 28 rcode 0"},
			outcomes: map[string]uint64{"dns": 2, "dns-no-query": 1},
		},
		"rcode and truncation": {
			packets:  []moment{asked(0, example), told(12, with(func(d *wire.DNS) { d.RCode, d.Truncated = 3, true }))},
			want:     []string{"12ms +12ms " + pair + " type 28 rcode 3 truncated"},
			outcomes: map[string]uint64{"dns": 2},
		},
		"the same id, another question": {
			packets: []moment{
				asked(0, example), told(12, with(func(d *wire.DNS) { d.Name = "www.example.net" })),
				told(13, with(func(d *wire.DNS) { d.Type = 1 })),
			},
			outcomes: map[string]uint64{"dns": 1, "dns-no-query": 2},
		},
		"the same question, another id": {
			packets:  []moment{asked(0, example), told(12, with(func(d *wire.DNS) { d.ID = 8 }))},
			outcomes: map[string]uint64{"dns": 1, "dns-no-query": 1},
		},
		"two questions with one id at a time": {
			packets: []moment{
				asked(0, example), asked(1, with(func(d *wire.DNS) { d.Type = 1 })),
				told(10, with(func(d *wire.DNS) { d.Type = 1 })), told(20, example),
			},
			want:     []string{"10ms +9ms " + pair + " type 1 rcode 0", "20ms +20ms " + pair + " type 28 rcode 0"},
			outcomes: map[string]uint64{"dns": 4},
		},
		"asked again: ambiguous, and counted from the first": {
			packets:  []moment{asked(0, example), asked(5000, example), told(5010, example)},
			want:     []string{"5.01s +5.01s " + pair + " type 28 rcode 0 ambiguous"},
			outcomes: map[string]uint64{"dns": 3},
		},
		"asked again after the timeout: a new query": {
			packets:  []moment{asked(0, example), asked(10001, example), told(10011, example)},
			want:     []string{"10.011s +10ms " + pair + " type 28 rcode 0"},
			outcomes: map[string]uint64{"dns": 3},
		},
		"answered after the timeout": {
			packets:  []moment{asked(0, example), told(10001, example)},
			outcomes: map[string]uint64{"dns": 2},
		},
		"letter case does not matter": {
			packets:  []moment{asked(0, example), told(12, with(func(d *wire.DNS) { d.Name = "wWw.eXaMpLe.OrG" }))},
			want:     []string{"12ms +12ms " + pair + " type 28 rcode 0"},
			outcomes: map[string]uint64{"dns": 2},
		},
		"the root, and the longest name": {
			packets: []moment{
				asked(0, with(func(d *wire.DNS) { d.Name = "" })), told(1, with(func(d *wire.DNS) { d.Name = "" })),
				asked(2, with(func(d *wire.DNS) { d.Name = long })), told(4, with(func(d *wire.DNS) { d.Name = long })),
			},
			want:     []string{"1ms +1ms " + pair + " type 28 rcode 0", "4ms +2ms " + pair + " type 28 rcode 0"},
			outcomes: map[string]uint64{"dns": 4},
		},
		"longest names that differ in the last letter": {
			packets: []moment{
				asked(2, with(func(d *wire.DNS) { d.Name = long })),
				told(4, with(func(d *wire.DNS) { d.Name = long[:len(long)-1] + "z" })),
			},
			outcomes: map[string]uint64{"dns": 1, "dns-no-query": 1},
		},
		"other opcodes, no question, two questions, answers in a query": {
			packets: []moment{
				asked(0, with(func(d *wire.DNS) { d.Opcode = 5 })),
				asked(0, with(func(d *wire.DNS) { d.Questions = 2 })),
				asked(0, with(func(d *wire.DNS) { d.Answers = 1 })), asked(0, with(func(d *wire.DNS) { d.RCode = 1 })),
			},
			outcomes: map[string]uint64{"dns-other": 4},
		},
		"a query from port 53 to elsewhere is no query": {
			packets:  []moment{{0, wire.UDP(resolver, client, example.Message())}},
			outcomes: map[string]uint64{"dns-other": 1},
		},
		"multicast DNS is not looked at": {
			packets:  []moment{{0, wire.UDP(withPort(client, 5353), withPort(resolver, 5353), example.Message())}},
			outcomes: map[string]uint64{"udp-other": 1},
		},
		"malformed: too short, a label without an end, a compressed name, no type": {
			packets: []moment{
				{0, wire.UDP(client, resolver, example.Message()[:11])},
				{0, wire.UDP(client, resolver, example.Message()[:20])},
				{0, wire.UDP(client, resolver, append(example.Message()[:12], 0xc0, 12, 0, 1, 0, 1))},
				{0, wire.UDP(client, resolver, wire.DNS{Name: "a"}.Message()[:12+3+3])},
				{0, wire.UDP(client, resolver, wire.DNS{Name: long + "." + long}.Message())},
			},
			outcomes: map[string]uint64{"dns-malformed": 5},
		},
	} {
		t.Run(name, func(t *testing.T) { test.check(t, MonitorSettings{Dns: 1}, MonitorProgEgress) })
	}
}

func TestDNSOverTCP(t *testing.T) {
	const pair = "query 10.0.0.2:53>10.0.0.1:1000"
	one, two := wire.DNS{ID: 1, Name: "one.example", Type: 1}, wire.DNS{ID: 2, Name: "two.example", Type: 1}
	reply := func(d wire.DNS, answers int) wire.DNS {
		d.Response, d.Answers = true, answers
		return d
	}
	ask := func(at float64, payload []byte) moment {
		return moment{ms(at), wire.TCP{Flags: wire.ACK, Payload: payload}.Between(client, resolver)}
	}
	tell := func(at float64, payload []byte) moment {
		return moment{ms(at), wire.TCP{Flags: wire.ACK, Payload: payload}.Between(resolver, client)}
	}
	for name, test := range map[string]struct {
		packets []moment
		want    []string
	}{
		"one query, one response": {
			packets: []moment{ask(0, one.Prefixed()), tell(9, reply(one, 1).Prefixed())},
			want:    []string{"9ms +9ms " + pair + " type 1 rcode 0"},
		},
		"pipelined queries in one segment, responses in another order": {
			packets: []moment{
				ask(0, append(one.Prefixed(), two.Prefixed()...)),
				tell(5, reply(two, 1).Prefixed()), tell(9, reply(one, 1).Prefixed()),
			},
			want: []string{"5ms +5ms " + pair + " type 1 rcode 0", "9ms +9ms " + pair + " type 1 rcode 0"},
		},
		"a response that goes on in further segments": {
			packets: []moment{
				ask(0, one.Prefixed()), tell(9, reply(one, 200).Prefixed()[:1400]),
				tell(9, reply(one, 200).Prefixed()[1400:]),
			},
			want: []string{"9ms +9ms " + pair + " type 1 rcode 0"},
		},
		"a query cut in two is no query": {
			packets: []moment{
				ask(0, one.Prefixed()[:20]), ask(1, one.Prefixed()[20:]), tell(9, reply(one, 1).Prefixed()),
			},
		},
		"a segment sent again makes it ambiguous": {
			packets: []moment{ask(0, one.Prefixed()), ask(200, one.Prefixed()), tell(209, reply(one, 1).Prefixed())},
			want:    []string{"209ms +209ms " + pair + " type 1 rcode 0 ambiguous"},
		},
	} {
		for tcp, outcome := range []string{"dns only", "with TCP"} {
			t.Run(name+", "+outcome, func(t *testing.T) {
				w := watching(t, MonitorSettings{Dns: 1, Tcp: uint8(tcp), StampInterval: uint64(time.Hour)})
				w.see(test.packets...)
				require.Equal(t, test.want, w.rtts())
			})
		}
	}
}

// Packets of DNS count for UDP or TCP, whether or not that is measured, too.
func TestDNSTransports(t *testing.T) {
	query := wire.DNS{Name: "a"}
	response := query
	response.Response = true
	encrypted := withPort(server, 853)
	packets := [][]byte{
		wire.UDP(client, resolver, query.Message()),
		wire.TCP{Flags: wire.ACK, Payload: query.Prefixed()}.Between(client, resolver),
		wire.TCP{Flags: wire.ACK, Length: 5}.Between(resolver, client),
		wire.TCP{Flags: wire.ACK, Length: 100}.Between(client, encrypted),
		wire.TCP{Flags: wire.ACK, Length: 100}.Between(encrypted, client),
		wire.TCP{Flags: wire.SYN}.Between(client, encrypted),
		wire.UDP(client, encrypted, clientToInit.Datagram()),
		wire.UDP(encrypted, client, wire.Short(true, clientID, 0, 100)),
		wire.TCP{Flags: wire.ACK, Length: 5}.Between(client, server),
		wire.UDP(client, server, make([]byte, 5)),
	}
	for _, test := range []struct {
		settings MonitorSettings
		want     map[string]uint64
	}{
		{MonitorSettings{Dns: 1}, map[string]uint64{
			"dns": 1, "dns-over-tcp": 1, "dns-malformed": 1, "dns-over-tls": 3, "dns-over-quic": 2,
			"other-protocol": 1, "udp-other": 1,
		}},
		{MonitorSettings{Dns: 1, Tcp: 1, Quic: 1}, map[string]uint64{
			"dns": 1, "dns-over-tcp": 1, "tcp": 2, "dns-over-tls": 2, "tcp-syn": 1, "dns-over-quic": 2, "udp-other": 1,
		}},
		{MonitorSettings{Tcp: 1, Quic: 1}, map[string]uint64{"tcp": 5, "tcp-syn": 1, "quic": 2, "udp-other": 2}},
	} {
		w := watching(t, test.settings)
		for _, packet := range packets {
			w.show(MonitorProgEgress, 0, wire.Frame(packet))
		}
		require.Equal(t, test.want, w.outcomes())
	}
}
