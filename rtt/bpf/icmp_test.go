//go:build linux

package bpf

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
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

// An RTT is counted in the bin that its logarithm says.
func TestLogarithmicBins(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	w := watching(t, MonitorSettings{Icmp: 1, Aggregate: 1, Traffic: 1})
	require.NoError(t, w.m.Variables[MonitorVarPeriod].Set(uint32(1)))
	want := make(map[int]uint32)
	seq, at := uint16(0), time.Duration(0)
	for _, rtt := range someRTTs() {
		w.show(MonitorProgEgress, at, wire.Frame(wire.Echo{ID: 5, Seq: seq}.Between(from, to)))
		w.show(MonitorProgEgress, at+rtt, wire.Frame(wire.Echo{Reply: true, ID: 5, Seq: seq}.Between(to, from)))
		seq, at = seq+1, at+rtt+time.Millisecond
		if rtt <= 10*time.Second { // longer ones are not reported
			want[logarithmicBin(rtt)]++
		}
	}
	require.Greater(t, len(want), 600)
	var key MonitorPrefixKey
	var entry MonitorRttEntry
	got := make(map[int]uint32)
	for all := w.m.Maps[MonitorMapPrefixRtts].Iterate(); all.Next(&key, &entry); {
		for bin, n := range entry.Periods[1].Bins {
			if n > 0 {
				got[bin] += n
			}
		}
	}
	require.Equal(t, want, got)
}

// someRTTs returns RTTs from 1 ns to 10 s, a few in each bin, and none within a nanosecond of a bin's end.
func someRTTs() (all []time.Duration) {
	for rtt := 1.; rtt < 10e9; rtt = math.Max(rtt*1.01, rtt+1) {
		d := time.Duration(rtt)
		if logarithmicBin(d-2) == logarithmicBin(d+2) {
			all = append(all, d)
		}
	}
	return append(all, 10*time.Second)
}

// logarithmicBin returns the bin that bins.h defines.
func logarithmicBin(rtt time.Duration) int {
	power := math.Log2(max(rtt, 1).Seconds()) - float64(MonitorBinsFIRST_DOUBLING)
	return min(max(0, 1+int(math.Floor(power*float64(MonitorBinsBINS_PER_DOUBLING)))), int(MonitorBinsBINS)-1)
}
