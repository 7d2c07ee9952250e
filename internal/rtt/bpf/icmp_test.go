//go:build linux

package bpf

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/internal/wire"
)

func TestICMPEcho(t *testing.T) {
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for name, host := range map[string]struct{ from, to, want string }{
		"IPv4":             {four.String(), "10.0.0.2", "10.0.0.2:5>10.0.0.1:5"},
		"IPv6":             {six.String(), "fd00::2", "[fd00::2]:5>[fd00::1]:5"},
		"a host to itself": {four.String(), "10.0.0.1", "10.0.0.1:5>10.0.0.1:5"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := netip.MustParseAddr(host.from), netip.MustParseAddr(host.to)
			w := watching(t, MonitorSettings{Icmp: 1})
			request := func(at float64, seq uint16) {
				w.show(MonitorProgEgress, ms(at), wire.Frame(wire.Echo{ID: 5, Seq: seq, Length: 56}.Between(from, to)))
			}
			reply := func(at float64, seq uint16) {
				w.show(MonitorProgEgress, ms(at), wire.Frame(wire.Echo{
					Reply: true, ID: 5, Seq: seq, Length: 56,
				}.Between(to, from)))
			}
			request(0, 1)
			reply(5, 1)
			reply(6, 1) // a duplicate
			request(10, 2)
			request(11, 2) // the same again counts from the first
			request(12, 0xffff)
			request(13, 0)
			reply(20, 0)
			reply(21, 2)
			reply(22, 0xffff)
			reply(23, 9) // to nothing
			require.Equal(t, []string{
				"0s open " + host.want + ": first packet from destination",
				"5ms +5ms echo " + host.want,
				"20ms +7ms echo " + host.want,
				"21ms +11ms echo " + host.want,
				"22ms +10ms echo " + host.want,
			}, w.got())
			require.Equal(t, map[string]uint64{"icmp": 11}, w.outcomes())
		})
	}
}

func TestICMPThatIsNotMeasured(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	w := watching(t, MonitorSettings{Icmp: 1})
	for _, e := range []wire.Echo{{Reply: true}, {Code: 1}, {Type: 3}, {Type: 11}, {Type: 13}} {
		w.show(MonitorProgEgress, 0, wire.Frame(e.Between(from, to)))
	}
	require.Equal(t, map[string]uint64{"icmp-no-flow": 1, "icmp-no-echo": 4}, w.outcomes())
	require.Empty(t, w.got())
}
