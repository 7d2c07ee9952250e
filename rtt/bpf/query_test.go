//go:build linux

package bpf

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

var timeServer = withPort(server, 123)

// queryCase has packets of a request-response protocol, and their results.
type queryCase struct {
	packets  []moment
	want     []string
	outcomes map[string]uint64
}

// check shows the packets to a program.
func (c queryCase) check(t *testing.T, s MonitorSettings, program string) {
	t.Helper()
	w := watching(t, s, program)
	for _, p := range c.packets {
		w.show(program, p.at, wire.Frame(p.packet))
	}
	require.Equal(t, c.want, w.got())
	require.Equal(t, c.outcomes, w.outcomes())
}

func testQueries(t *testing.T, s MonitorSettings, cases map[string]queryCase) {
	for name, test := range cases {
		for _, program := range []string{MonitorProgEgress, MonitorProgXdpIngress} {
			t.Run(name+", "+program, func(t *testing.T) {
				s := s
				s.Local = 1
				test.check(t, s, program)
			})
		}
	}
}

func TestNTP(t *testing.T) {
	const pair = "NTP 10.0.0.2:123>10.0.0.1:1000"
	ask := func(at float64, n wire.NTP) moment {
		n.Mode = 3
		return moment{ms(at), wire.UDP(client, timeServer, n.Message())}
	}
	tell := func(at float64, n wire.NTP) moment {
		n.Mode = 4
		return moment{ms(at), wire.UDP(timeServer, client, n.Message())}
	}
	mode := func(mode uint8) moment {
		return moment{0, wire.UDP(timeServer, timeServer, wire.NTP{Mode: mode}.Message())}
	}
	const one, two = 0x0123456789abcdef, 0x0123456789abcdee
	extended := append(wire.NTP{Mode: 3, Transmit: two}.Message(), make([]byte, 32)...)
	testQueries(t, MonitorSettings{Ntp: 1}, map[string]queryCase{
		"query and response": {
			packets: []moment{
				ask(0, wire.NTP{Transmit: one}), tell(12, wire.NTP{Origin: one, Transmit: two}),
				tell(13, wire.NTP{Origin: one, Transmit: two}),
			},
			want:     []string{"12ms +12ms " + pair},
			outcomes: map[string]uint64{"ntp": 2, "ntp-no-query": 1},
		},
		"another origin": {
			packets:  []moment{ask(0, wire.NTP{Transmit: one}), tell(12, wire.NTP{Origin: two, Transmit: one})},
			outcomes: map[string]uint64{"ntp": 1, "ntp-no-query": 1},
		},
		"two queries at a time, of version 3 and with extensions": {
			packets: []moment{
				ask(0, wire.NTP{Version: 3, Transmit: one}),
				{ms(1), wire.UDP(client, timeServer, extended)},
				tell(20, wire.NTP{Origin: two}), tell(25, wire.NTP{Version: 3, Origin: one}),
			},
			want:     []string{"20ms +19ms " + pair, "25ms +25ms " + pair},
			outcomes: map[string]uint64{"ntp": 4},
		},
		"both ends have the port": {
			packets: []moment{
				{0, wire.UDP(withPort(client, 123), timeServer, wire.NTP{Mode: 3, Transmit: one}.Message())},
				{ms(4), wire.UDP(timeServer, withPort(client, 123), wire.NTP{Mode: 4, Origin: one}.Message())},
			},
			want:     []string{"4ms +4ms NTP 10.0.0.2:123>10.0.0.1:123"},
			outcomes: map[string]uint64{"ntp": 2},
		},
		"sent again: ambiguous": {
			packets: []moment{
				ask(0, wire.NTP{Transmit: one}), ask(5, wire.NTP{Transmit: one}), tell(12, wire.NTP{Origin: one}),
			},
			want:     []string{"12ms +12ms " + pair + " ambiguous"},
			outcomes: map[string]uint64{"ntp": 3},
		},
		"other modes and versions, and a client at the server's end": {
			packets: []moment{
				mode(0), mode(1), mode(2), mode(5), mode(6), mode(7), ask(0, wire.NTP{Version: 5}),
				{0, wire.UDP(timeServer, client, wire.NTP{Mode: 3}.Message())},
				{0, wire.UDP(client, timeServer, wire.NTP{Mode: 4}.Message())},
			},
			outcomes: map[string]uint64{"ntp-other": 9},
		},
		"malformed: empty, and cut": {
			packets: []moment{
				{0, wire.UDP(client, timeServer, nil)},
				{0, wire.UDP(client, timeServer, wire.NTP{Mode: 3}.Message()[:47])},
			},
			outcomes: map[string]uint64{"ntp-malformed": 2},
		},
	})
}

func TestSTUN(t *testing.T) {
	const pair = "STUN 10.0.0.2:80>10.0.0.1:1000"
	id := [12]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	first, last := id, id
	first[0], last[11] = 99, 99
	ask := func(at float64, s wire.STUN) moment { return moment{ms(at), wire.UDP(client, server, s.Message())} }
	tell := func(at float64, s wire.STUN) moment { return moment{ms(at), wire.UDP(server, client, s.Message())} }
	changed := func(at int, with ...byte) moment {
		message := wire.STUN{Type: wire.BindingRequest, Length: 8}.Message()
		return moment{0, wire.UDP(client, server, edit(message, at, with...))}
	}
	request := wire.STUN{Type: wire.BindingRequest, ID: id}
	testQueries(t, MonitorSettings{Stun: 1}, map[string]queryCase{
		"request and response": {
			packets: []moment{
				ask(0, request), tell(12, wire.STUN{Type: wire.BindingSuccess, ID: id, Length: 12}),
				tell(13, wire.STUN{Type: wire.BindingSuccess, ID: id, Length: 12}),
			},
			want:     []string{"12ms +12ms " + pair},
			outcomes: map[string]uint64{"stun": 2, "stun-no-query": 1},
		},
		"an error of TURN": {
			packets: []moment{
				ask(0, wire.STUN{Type: wire.AllocateRequest, ID: id, Length: 8}),
				tell(3, wire.STUN{Type: wire.AllocateError, ID: id, Length: 80}),
			},
			want:     []string{"3ms +3ms " + pair},
			outcomes: map[string]uint64{"stun": 2},
		},
		"other transactions": {
			packets: []moment{
				ask(0, request), tell(1, wire.STUN{Type: wire.BindingSuccess, ID: first}),
				tell(2, wire.STUN{Type: wire.BindingSuccess, ID: last}),
			},
			outcomes: map[string]uint64{"stun": 1, "stun-no-query": 2},
		},
		"checks of both ends with one ID": {
			packets: []moment{
				ask(0, request), tell(5, request), ask(9, wire.STUN{Type: wire.BindingSuccess, ID: id}),
				tell(12, wire.STUN{Type: wire.BindingError, ID: id}),
			},
			want:     []string{"9ms +4ms STUN 10.0.0.1:1000>10.0.0.2:80", "12ms +12ms " + pair},
			outcomes: map[string]uint64{"stun": 4},
		},
		"sent again: ambiguous": {
			packets: []moment{
				ask(0, request), ask(500, request), tell(512, wire.STUN{Type: wire.BindingSuccess, ID: id}),
			},
			want:     []string{"512ms +512ms " + pair + " ambiguous"},
			outcomes: map[string]uint64{"stun": 3},
		},
		"an indication": {
			packets:  []moment{ask(0, wire.STUN{Type: wire.BindingIndication, ID: id})},
			outcomes: map[string]uint64{"stun-other": 1},
		},
		"malformed: no multiple of four, too long, too short": {
			packets: []moment{
				ask(0, wire.STUN{Type: 1, Length: 6}), changed(2, 0, 12), changed(2, 0, 4), changed(2, 0xff, 0xec),
			},
			outcomes: map[string]uint64{"stun-malformed": 4},
		},
		"no STUN: another cookie, the bits of QUIC and RTP, too short": {
			packets: []moment{
				changed(4, 0x20), changed(0, 0x40), changed(0, 0x80),
				{0, wire.UDP(client, server, request.Message()[:19])},
			},
			outcomes: map[string]uint64{"udp-other": 4},
		},
	})
}

// Each protocol is measured where it alone is switched on, and the ports of others do not hide it.
func TestQueriesSwitchedOff(t *testing.T) {
	ntp := wire.UDP(client, timeServer, wire.NTP{Mode: 3}.Message())
	stun := wire.UDP(client, withPort(server, 53), wire.STUN{Type: wire.BindingRequest}.Message())
	for _, test := range []struct {
		settings MonitorSettings
		want     map[string]uint64
	}{
		{MonitorSettings{}, map[string]uint64{"other-protocol": 2}},
		{MonitorSettings{Ntp: 1}, map[string]uint64{"ntp": 1, "udp-other": 1}},
		{MonitorSettings{Stun: 1}, map[string]uint64{"stun": 1, "udp-other": 1}},
		{MonitorSettings{Ntp: 1, Stun: 1}, map[string]uint64{"ntp": 1, "stun": 1}},
	} {
		w := watching(t, test.settings)
		w.show(MonitorProgEgress, 0, wire.Frame(ntp))
		w.show(MonitorProgEgress, 0, wire.Frame(stun))
		require.Equal(t, test.want, w.outcomes())
	}
}

// All protocols share one table, and each message takes one entry at most, for ten seconds.
func TestQueriesShareATable(t *testing.T) {
	w := watching(t, everything, MonitorProgEgress, MonitorProgExpireQueries)
	for i := range byte(200) {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, i, 1}), 1000)
		request := wire.STUN{Type: wire.BindingRequest, ID: [12]byte{i}}
		w.show(MonitorProgEgress, 0, wire.Frame(wire.UDP(from, server, request.Message())))
	}
	w.show(MonitorProgEgress, 0, wire.Frame(wire.UDP(client, timeServer, wire.NTP{Mode: 3}.Message())))
	waiting := uint64(testLimits.Queries)
	require.Equal(t, map[string]uint64{"stun": waiting, "queries-full": 201 - waiting}, w.outcomes())
	require.Equal(t, 201-waiting, w.tally(MonitorTallyTALLY_QUERIES_FULL))

	w.expire(10*time.Second, MonitorProgExpireQueries)
	require.Zero(t, w.tally(MonitorTallyTALLY_QUERIES_EXPIRED), "ten seconds are in time")
	w.expire(10*time.Second+1, MonitorProgExpireQueries)
	require.Equal(t, waiting, w.tally(MonitorTallyTALLY_QUERIES_EXPIRED))
}

// A peer has at most a share of the table, whatever addresses of its /64 it uses. An entry that leaves gives it back.
func TestQueryShare(t *testing.T) {
	w := watching(t, everything, MonitorProgEgress, MonitorProgExpireQueries)
	ask := func(at float64, from netip.AddrPort, id int) {
		request := wire.STUN{Type: wire.BindingRequest, ID: [12]byte{byte(id), byte(id >> 8)}}
		to := server
		if from.Addr().Is6() {
			to = server6
		}
		w.show(MonitorProgEgress, ms(at), wire.Frame(wire.UDP(from, to, request.Message())))
	}
	measured := func(n, refused uint64) {
		t.Helper()
		require.Equal(t, n, w.outcomes()["stun"])
		require.Equal(t, refused, w.outcomes()["queries-share"])
		require.Equal(t, refused, w.tally(MonitorTallyTALLY_QUERIES_SHARE))
	}
	share := int(testLimits.Queries) / queryShares
	for i := range 3 * share {
		ask(0, withPort(client, uint16(1000+i)), i)
		ask(0, netip.AddrPortFrom(netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(3 + i)}), 1000), i)
	}
	n, refused := uint64(2*share), uint64(4*share)
	measured(n, refused)
	ask(0, withPort(netip.MustParseAddrPort("10.0.0.77:1"), 5), 1)
	ask(0, netip.MustParseAddrPort("[fd00:0:0:1::1]:5"), 1)
	measured(n+2, refused)

	answer := wire.STUN{Type: wire.BindingSuccess}
	w.show(MonitorProgEgress, ms(5), wire.Frame(wire.UDP(server, withPort(client, 1000), answer.Message())))
	n += 3
	measured(n, refused)
	ask(6, client, 5000)
	ask(6, client, 5001)
	measured(n+1, refused+1)
	ask(15_000, withPort(client, 1001), 1) // takes the place of the first, which nobody has answered
	measured(n+2, refused+1)
	w.expire(ms(20_000), MonitorProgExpireQueries)
	for i := range 2*share - 1 {
		ask(20_000, client, 6000+i)
	}
	measured(n+1+uint64(share), refused+1+uint64(share))
}
