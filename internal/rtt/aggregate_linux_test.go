package rtt

import (
	"bytes"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/internal/wire"
	"sluice/internal/rtt/output"
	"sluice/internal/rtt/report/reporttest"
)

// echo is a ping of alice to a host, and its reply after so many milliseconds.
func (s *script) echo(ms float64, seq uint16, to string, rtt float64) {
	host := netip.MustParseAddr(to)
	from := alice.Addr()
	if host.Is6() {
		from = alice6.Addr()
	}
	s.ip(ms, wire.Echo{ID: 1, Seq: seq, Length: 56}.Between(from, host))
	s.ip(ms+rtt, wire.Echo{ID: 1, Seq: seq, Length: 56, Reply: true}.Between(host, from))
}

// aggregatedOf returns what is written of a capture, without dates and the first line.
func aggregatedOf(t *testing.T, cfg Config, write func(*script)) string {
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

func TestAggregate(t *testing.T) {
	hosts := func(s *script) {
		s.echo(0, 1, "198.51.100.1", 10)
		s.echo(20, 2, "198.51.100.1", 30)
		s.echo(60, 1, "198.51.101.1", 50)
		s.echo(120, 1, "2001:db8:2::1", 70)
	}
	for name, test := range map[string]struct {
		cfg   Config
		write func(*script)
		want  string
	}{
		"by the source of replies": {Config{}, hosts, `
00.190000000: 192.0.2.0/24 -> rxpkts=3, rxbytes=294, txpkts=3, txbytes=294
00.190000000: 198.51.100.0/24 -> rxpkts=2, rxbytes=196, txpkts=2, txbytes=196, rtt-count=2, min=10 ms, mean=20 ms, median=12 ms, p95=29.8 ms, max=30 ms
00.190000000: 198.51.101.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98, rtt-count=1, min=50 ms, mean=50 ms, median=50 ms, p95=50 ms, max=50 ms
00.190000000: 2001:db8:1::/48 -> rxpkts=1, rxbytes=118, txpkts=1, txbytes=118
00.190000000: 2001:db8:2::/48 -> rxpkts=1, rxbytes=118, txpkts=1, txbytes=118, rtt-count=1, min=70 ms, mean=70 ms, median=70 ms, p95=70 ms, max=70 ms
00.190000000: ICMP=(pkts=6, bytes=588), ICMPv6=(pkts=2, bytes=236), ECN=(Not-ECT=8)
`},
		"by their destination": {Config{AggregateReverse: true}, hosts, `
00.190000000: 192.0.2.0/24 -> rxpkts=3, rxbytes=294, txpkts=3, txbytes=294, rtt-count=3, min=10 ms, mean=30 ms, median=30 ms, p95=49.7 ms, max=50 ms
00.190000000: 198.51.100.0/24 -> rxpkts=2, rxbytes=196, txpkts=2, txbytes=196
00.190000000: 198.51.101.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98
00.190000000: 2001:db8:1::/48 -> rxpkts=1, rxbytes=118, txpkts=1, txbytes=118, rtt-count=1, min=70 ms, mean=70 ms, median=70 ms, p95=70 ms, max=70 ms
00.190000000: 2001:db8:2::/48 -> rxpkts=1, rxbytes=118, txpkts=1, txbytes=118
00.190000000: ICMP=(pkts=6, bytes=588), ICMPv6=(pkts=2, bytes=236), ECN=(Not-ECT=8)
`},
		"longer prefixes": {Config{IPv4Prefix: 16, IPv6Prefix: 32}, hosts, `
00.190000000: 192.0.0.0/16 -> rxpkts=3, rxbytes=294, txpkts=3, txbytes=294
00.190000000: 198.51.0.0/16 -> rxpkts=3, rxbytes=294, txpkts=3, txbytes=294, rtt-count=3, min=10 ms, mean=30 ms, median=30 ms, p95=49.7 ms, max=50 ms
00.190000000: 2001:db8::/32 -> rxpkts=2, rxbytes=236, txpkts=2, txbytes=236, rtt-count=1, min=70 ms, mean=70 ms, median=70 ms, p95=70 ms, max=70 ms
00.190000000: ICMP=(pkts=6, bytes=588), ICMPv6=(pkts=2, bytes=236), ECN=(Not-ECT=8)
`},
		"more prefixes than there is place for": {Config{MaxPrefixes: 2}, hosts, `
00.190000000: 0.0.0.0/0 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98, rtt-count=1, min=50 ms, mean=50 ms, median=50 ms, p95=50 ms, max=50 ms
00.190000000: 192.0.2.0/24 -> rxpkts=3, rxbytes=294, txpkts=3, txbytes=294
00.190000000: 198.51.100.0/24 -> rxpkts=2, rxbytes=196, txpkts=2, txbytes=196, rtt-count=2, min=10 ms, mean=20 ms, median=12 ms, p95=29.8 ms, max=30 ms
00.190000000: ::/0 -> rxpkts=2, rxbytes=236, txpkts=2, txbytes=236, rtt-count=1, min=70 ms, mean=70 ms, median=70 ms, p95=70 ms, max=70 ms
00.190000000: ICMP=(pkts=6, bytes=588), ICMPv6=(pkts=2, bytes=236), ECN=(Not-ECT=8), errors=(create-agg-subnet-state=8)
`},
		"prefixes come and go": {Config{MaxPrefixes: 2, AggregateTimeout: 2 * time.Second}, func(s *script) {
			s.echo(0, 1, "198.51.100.1", 10)
			s.echo(3500, 1, "203.0.113.1", 10)
		}, `
01.000000000: 192.0.2.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98
01.000000000: 198.51.100.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98, rtt-count=1, min=10 ms, mean=10 ms, median=10 ms, p95=10 ms, max=10 ms
01.000000000: ICMP=(pkts=2, bytes=196), ECN=(Not-ECT=2)
02.000000000: pkts=0, bytes=0
03.000000000: pkts=0, bytes=0
03.510000000: 192.0.2.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98
03.510000000: 203.0.113.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98, rtt-count=1, min=10 ms, mean=10 ms, median=10 ms, p95=10 ms, max=10 ms
03.510000000: ICMP=(pkts=2, bytes=196), ECN=(Not-ECT=2)
`},
		"prefixes stay": {Config{MaxPrefixes: 2, AggregateTimeout: -1}, func(s *script) {
			s.echo(0, 1, "198.51.100.1", 10)
			s.echo(3500, 1, "203.0.113.1", 10)
		}, `
01.000000000: 192.0.2.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98
01.000000000: 198.51.100.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98, rtt-count=1, min=10 ms, mean=10 ms, median=10 ms, p95=10 ms, max=10 ms
01.000000000: ICMP=(pkts=2, bytes=196), ECN=(Not-ECT=2)
02.000000000: pkts=0, bytes=0
03.000000000: pkts=0, bytes=0
03.510000000: 0.0.0.0/0 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98, rtt-count=1, min=10 ms, mean=10 ms, median=10 ms, p95=10 ms, max=10 ms
03.510000000: 192.0.2.0/24 -> rxpkts=1, rxbytes=98, txpkts=1, txbytes=98
03.510000000: ICMP=(pkts=2, bytes=196), ECN=(Not-ECT=2), errors=(create-agg-subnet-state=3)
`},
		"ECN, and what is not measured": {Config{}, func(s *script) {
			s.data(0, 1, 100)
			s.data(10, 1001, 101)
			s.data(20, 1001, 101)
			s.ack(30, 2001, 101)
			s.ip(40, wire.IP{From: alice.Addr(), To: bob.Addr(), Protocol: 132, ECN: 3}.Packet(make([]byte, 20)))
			s.frame(50, wire.Ethernet(wire.TypeARP, make([]byte, 28)))
		}, `
00.050000000: 192.0.2.0/24 -> rxpkts=1, rxbytes=66, txpkts=4, txbytes=3252
00.050000000: 198.51.100.0/24 -> rxpkts=4, rxbytes=3252, txpkts=1, txbytes=66
00.050000000: non-IP=(pkts=1, bytes=42), TCP=(pkts=4, bytes=3264), other=(pkts=1, bytes=54), ECN=(Not-ECT=4, CE=1)
`},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.Aggregate = time.Second
			require.Equal(t, strings.TrimPrefix(test.want, "\n"), aggregatedOf(t, test.cfg, test.write))
		})
	}
}

func TestAggregateRetransmissions(t *testing.T) {
	requireKernel(t)
	var s script
	s.data(0, 1, 100)
	s.data(10, 1, 101)
	var got reporttest.Sink
	mustReplay(t, Config{Aggregate: time.Second, Sink: &got}, captureFile(t, s.packets...))
	require.Len(t, got.Intervals, 1)
	require.Len(t, got.Intervals[0].Prefixes, 2, "that of the sender and that of the receiver")
	for _, p := range got.Intervals[0].Prefixes {
		require.EqualValues(t, 1, p.Retransmissions, p.Prefix)
	}
}
