package rtt

import (
	"bytes"
	_ "embed"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"sluice/rtt/groups"
	"sluice/rtt/internal/wire"
	"sluice/rtt/output"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// echo is a ping of alice to a host, and its reply after rtt milliseconds.
func (s *script) echo(ms float64, seq uint16, to string, rtt float64) {
	host := netip.MustParseAddr(to)
	from := alice.Addr()
	if host.Is6() {
		from = alice6.Addr()
	}
	s.ip(ms, wire.Echo{ID: 1, Seq: seq, Length: 56}.Between(from, host))
	s.ip(ms+rtt, wire.Echo{ID: 1, Seq: seq, Length: 56, Reply: true}.Between(host, from))
}

// aggregatedOf returns the text of a capture's aggregates, without hours, minutes and the first line.
func aggregatedOf(t *testing.T, cfg MonitorConfig, write func(*script)) string {
	t.Helper()
	requireKernel(t)
	var s script
	write(&s)
	var out bytes.Buffer
	w, err := output.New(output.Standard, func() (io.WriteCloser, error) { return nopCloser{&out}, nil })
	require.NoError(t, err)
	cfg.Sink, cfg.ICMP, cfg.TCP = w, true, true
	mustReplay(t, cfg, captureFile(t, s.packets...))
	require.NoError(t, w.Close())
	_, text, _ := strings.Cut(out.String(), "\n")
	return strings.ReplaceAll(text, "12:00:", "")
}

//go:embed testdata/aggregate.txtar
var wantAggregates []byte

func TestAggregate(t *testing.T) {
	hosts := func(s *script) {
		s.echo(0, 1, "198.51.100.1", 10)
		s.echo(20, 2, "198.51.100.1", 30)
		s.echo(60, 1, "198.51.101.1", 50)
		s.echo(120, 1, "2001:db8:2::1", 70)
	}
	want := txtar.Parse(wantAggregates)
	for i, test := range []struct {
		name  string
		cfg   MonitorConfig
		write func(*script)
	}{
		{"by the source of replies", MonitorConfig{}, hosts},
		{"by their destination", MonitorConfig{AggregateReverse: true}, hosts},
		{"longer prefixes", MonitorConfig{IPv4Prefix: 16, IPv6Prefix: 32}, hosts},
		{"more prefixes than there is place for", MonitorConfig{MaxPrefixes: 2}, hosts},
		{"prefixes come and go", MonitorConfig{MaxPrefixes: 2, AggregateTimeout: 2 * time.Second}, func(s *script) {
			s.echo(0, 1, "198.51.100.1", 10)
			s.echo(3500, 1, "203.0.113.1", 10)
		}},
		{"prefixes stay", MonitorConfig{MaxPrefixes: 2, AggregateTimeout: -1}, func(s *script) {
			s.echo(0, 1, "198.51.100.1", 10)
			s.echo(3500, 1, "203.0.113.1", 10)
		}},
		{"ECN, and what is not measured", MonitorConfig{}, func(s *script) {
			s.data(0, 1, 100)
			s.data(10, 1001, 101)
			s.data(20, 1001, 101)
			s.ack(30, 2001, 101)
			s.ip(40, wire.IP{From: alice.Addr(), To: bob.Addr(), Protocol: 132, ECN: 3}.Packet(make([]byte, 20)))
			s.frame(50, wire.Ethernet(wire.TypeARP, make([]byte, 28)))
		}},
		{"groups", MonitorConfig{Groups: groups.Table{
			netip.MustParsePrefix("198.51.0.0/16"):     "blue",
			netip.MustParsePrefix("198.51.101.0/24"):   "red",
			netip.MustParsePrefix("2001:db8:2::1/128"): "red",
			netip.MustParsePrefix("::/0"):              "six",
		}}, hosts},
		{"pairs", MonitorConfig{AggregateBy: report.Keys{Pair: true}}, hosts},
		{"more pairs than there is place for", MonitorConfig{
			AggregateBy: report.Keys{Pair: true}, MaxPrefixes: 2, AggregateTimeout: 2 * time.Second,
		}, hosts},
		{"pairs of groups", MonitorConfig{AggregateBy: report.Keys{Pair: true}, Groups: groups.Table{
			netip.MustParsePrefix("192.0.2.0/24"):   "home",
			netip.MustParsePrefix("198.51.0.0/16"):  "blue",
			netip.MustParsePrefix("2001:db8::/32"):  "six",
			netip.MustParsePrefix("203.0.113.0/24"): "unused",
		}}, hosts},
		{"VLANs and protocols", MonitorConfig{AggregateBy: report.Keys{VLAN: true, Protocol: true}}, func(s *script) {
			s.data(0, 1, 100)
			s.data(10, 1001, 101)
			s.ack(30, 2001, 101)
			s.frame(40, wire.Frame(wire.Echo{ID: 7, Seq: 1}.Between(alice.Addr(), bob.Addr()), 5))
			s.frame(45, wire.Frame(wire.Echo{ID: 7, Seq: 1, Reply: true}.Between(bob.Addr(), alice.Addr()), 5))
			s.ip(50, wire.IP{From: alice.Addr(), To: bob.Addr(), Protocol: 132}.Packet(make([]byte, 20)))
		}},
		{"VLANs within VLANs", MonitorConfig{AggregateBy: report.Keys{VLAN: true}}, func(s *script) {
			for i, tags := range [][]uint16{{100, 7}, {100, 8}, {101, 7}, {100}} {
				at, echo := float64(10*i), wire.Echo{ID: 7, Seq: 1}
				s.frame(at, wire.Frame(echo.Between(alice.Addr(), bob.Addr()), tags...))
				echo.Reply = true
				s.frame(at+1+float64(i), wire.Frame(echo.Between(bob.Addr(), alice.Addr()), tags...))
			}
		}},
		{"both parts of the path", MonitorConfig{AggregateParts: true}, func(s *script) {
			hosts(s)
			s.ip(150, wire.Echo{ID: 9, Seq: 1, Length: 56}.Between(bob.Addr(), alice.Addr()))
			s.ip(153, wire.Echo{ID: 9, Seq: 1, Length: 56, Reply: true}.Between(alice.Addr(), bob.Addr()))
		}},
		{"load", MonitorConfig{
			Aggregate: 10 * time.Second, AggregateParts: true, AggregateLoad: 1000,
		}, func(s *script) {
			s.echo(0, 1, "198.51.100.1", 10) // nothing before
			for i := range 10 {
				s.echo(100+float64(i), uint16(2+i), "198.51.101.1", 0.5) // 980 bytes each way
			}
			s.echo(1000, 20, "198.51.100.1", 40) // alice's prefix had 1,078 bytes, and bob's had 98
			s.echo(1100, 21, "198.51.100.1", 50)
			s.echo(2100, 22, "198.51.100.1", 20) // 196 bytes
			s.echo(3900, 23, "198.51.100.1", 30) // nothing
		}},
		{"load of what there is no place for", MonitorConfig{
			Aggregate: 10 * time.Second, AggregateParts: true, AggregateLoad: 1000, MaxPrefixes: 1,
		}, func(s *script) {
			s.echo(0, 1, "198.51.100.1", 10)
			s.echo(1000, 2, "198.51.100.1", 40)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, want.Files[i].Name, test.name)
			test.cfg.Aggregate = max(test.cfg.Aggregate, time.Second)
			require.Equal(t, string(want.Files[i].Data), aggregatedOf(t, test.cfg, test.write))
		})
	}
}

// TestAggregateOfJumpingTimes has captures whose times jump, so far that the packets after that are of another capture.
func TestAggregateOfJumpingTimes(t *testing.T) {
	requireKernel(t)
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		var s script
		s.echo(0, 1, "198.51.100.1", 10)
		s.echo(jump.Seconds()*1000, 2, "198.51.100.1", 10)
		var got reporttest.Sink
		mustReplay(t, MonitorConfig{ICMP: true, Aggregate: time.Second, Sink: &got}, captureFile(t, s.packets...))
		require.Len(t, got.Intervals, 2, jump)
		for n, i := range got.Intervals {
			require.Equal(t, s.packets[2*n].At, i.Start.UTC())
			require.Equal(t, s.packets[2*n+1].At, i.End.UTC())
			require.Len(t, i.Prefixes, 2)
		}
	}
}

func TestAggregateSignsOfCongestion(t *testing.T) {
	requireKernel(t)
	var s script
	s.data(0, 1, 100)
	s.data(10, 1, 101)
	for i, codepoint := range []uint8{0, 1, 2, 3} {
		s.ip(20+float64(i), wire.IP{From: alice.Addr(), To: bob.Addr(), Protocol: 132, ECN: codepoint}.Packet(nil))
	}
	s.ip(30, wire.IP{From: bob.Addr(), To: alice.Addr(), Protocol: 132, ECN: 1}.Packet(nil))
	var got reporttest.Sink
	mustReplay(t, MonitorConfig{Aggregate: time.Second, Sink: &got}, captureFile(t, s.packets...))
	require.Len(t, got.Intervals, 1)
	prefixes := got.Intervals[0].Prefixes
	require.Len(t, prefixes, 2)
	// signs returns traffic without its packets and bytes.
	signs := func(t report.PrefixTraffic) report.PrefixTraffic {
		return report.PrefixTraffic{
			Retransmissions: t.Retransmissions, ECNCapable: t.ECNCapable, ECNMarked: t.ECNMarked,
		}
	}
	ofAlice := report.PrefixTraffic{Retransmissions: 1, ECNCapable: 3, ECNMarked: 1}
	ofBob := report.PrefixTraffic{ECNCapable: 1}
	require.Equal(t, "192.0.2.0/24", prefixes[0].Prefix.String())
	require.Equal(t, ofAlice, signs(prefixes[0].Sent))
	require.Equal(t, ofBob, signs(prefixes[0].Received))
	require.Equal(t, ofBob, signs(prefixes[1].Sent))
	require.Equal(t, ofAlice, signs(prefixes[1].Received))
}

// Losses before the monitor and behind it, by the loss bits of QUIC, are of the sender's and of the receiver's prefix.
func TestAggregateLosses(t *testing.T) {
	t.Parallel()
	requireKernel(t)
	path := wire.LossPath{Packets: 64 * 201, Before: 0.02, After: 0.03, Seed: 1}
	var s script
	s.spin(wire.SpinPath{}) // without loss bits that alternate
	begin := s.packets[len(s.packets)-1].At.Sub(captureBegin)
	for i, p := range path.Seen() {
		at := begin + time.Duration(i+1)*100*time.Microsecond
		s.ip(at.Seconds()*1000, wire.UDP(bob, alice, wire.Short(false, []byte{1, 1, 1, 1}, p.Bits, 40)))
	}
	capture := captureFile(t, s.packets...)
	for name, cfg := range map[string]MonitorConfig{
		"prefixes": {},
		"load":     {AggregateLoad: 1000, AggregateParts: true},
		"pairs":    {AggregateBy: report.Keys{Pair: true, Protocol: true}},
		"no place": {MaxPrefixes: 1, AggregateLoad: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got reporttest.Sink
			cfg.Aggregate, cfg.QUIC, cfg.Sink = time.Second, true, &got
			mustReplay(t, cfg, capture)
			var sent, received report.Loss
			for _, i := range got.Intervals {
				for _, p := range i.Prefixes {
					sent, received = sent.Plus(p.Sent.QUIC), received.Plus(p.Received.QUIC)
					if name != "no place" && p.Sent.QUIC.All > 0 {
						require.Equal(t, "198.51.100.0/24", p.Prefix.String())
					}
				}
			}
			require.Equal(t, sent, received)
			require.InDelta(t, path.Packets, sent.All, 128)
			require.InDelta(t, path.Before, 1-float64(sent.Passed)/float64(sent.All), 0.01)
			end := path.Before + (1-path.Before)*path.After
			require.InDelta(t, end, float64(sent.Reported)/float64(sent.Passed), 0.01)
		})
	}
}

// Latencies of queries are no RTTs of the path: they have a histogram of their own, of the servers' prefix, also where
// there is no place. Load does not divide them.
func TestAggregateQueries(t *testing.T) {
	t.Parallel()
	requireKernel(t)
	var s script
	s.echo(0, 1, "198.51.100.1", 10)
	resolver, timeServer := netip.AddrPortFrom(bob.Addr(), 53), netip.AddrPortFrom(bob.Addr(), 123)
	dns := wire.DNS{ID: 1, Name: "example.org", Type: 1}
	s.ip(20, wire.UDP(alice, resolver, dns.Message()))
	dns.Response = true
	s.ip(110, wire.UDP(resolver, alice, dns.Message()))
	s.ip(120, wire.UDP(alice, timeServer, wire.NTP{Mode: 3, Transmit: 1 << 40}.Message()))
	s.ip(140, wire.UDP(timeServer, alice, wire.NTP{Mode: 4, Origin: 1 << 40}.Message()))
	s.ip(150, wire.UDP(alice, bob, wire.STUN{Type: wire.BindingRequest, ID: [12]byte{1}}.Message()))
	s.ip(180, wire.UDP(bob, alice, wire.STUN{Type: wire.BindingSuccess, ID: [12]byte{1}}.Message()))
	capture := captureFile(t, s.packets...)
	for name, test := range map[string]struct {
		cfg  MonitorConfig
		want string // the prefix with the RTTs
	}{
		"prefixes":       {MonitorConfig{}, "198.51.100.0/24"},
		"the other side": {MonitorConfig{AggregateReverse: true}, "192.0.2.0/24"},
		"load and parts": {MonitorConfig{AggregateLoad: 1, AggregateParts: true}, "198.51.100.0/24"},
		"no place":       {MonitorConfig{MaxPrefixes: 1, AggregateLoad: 1, AggregateParts: true}, "0.0.0.0/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got reporttest.Sink
			test.cfg.Aggregate, test.cfg.Sink = time.Second, &got
			test.cfg.ICMP, test.cfg.DNS, test.cfg.NTP, test.cfg.STUN = true, true, true, true
			mustReplay(t, test.cfg, capture)
			require.Len(t, got.Intervals, 1)
			seen := false
			for _, p := range got.Intervals[0].Prefixes {
				if p.Prefix.String() != test.want {
					require.Zero(t, p.RTT.Count+p.Queries.Count, p.Prefix)
					require.LessOrEqual(t, p.PeerRTT.Count, uint64(1), "the echo alone")
					continue
				}
				seen = true
				require.EqualValues(t, 1, p.RTT.Count)
				require.Equal(t, 10*time.Millisecond, p.RTT.Max)
				require.EqualValues(t, 3, p.Queries.Count)
				require.Equal(t, 20*time.Millisecond, p.Queries.Min)
				require.Equal(t, 90*time.Millisecond, p.Queries.Max)
				require.LessOrEqual(t, p.ByLoad.Idle.Count+p.ByLoad.Loaded.Count, uint64(1))
			}
			require.True(t, seen)
		})
	}
}
