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

	"sluice/internal/rtt/groups"
	"sluice/internal/rtt/internal/wire"
	"sluice/internal/rtt/output"
	"sluice/internal/rtt/report/reporttest"
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
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, want.Files[i].Name, test.name)
			test.cfg.Aggregate = time.Second
			require.Equal(t, string(want.Files[i].Data), aggregatedOf(t, test.cfg, test.write))
		})
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
	var got reporttest.Sink
	mustReplay(t, MonitorConfig{Aggregate: time.Second, Sink: &got}, captureFile(t, s.packets...))
	require.Len(t, got.Intervals, 1)
	require.Len(t, got.Intervals[0].Prefixes, 2, "that of the sender and that of the receiver")
	for _, p := range got.Intervals[0].Prefixes {
		require.EqualValues(t, 1, p.Retransmissions, p.Prefix)
		require.EqualValues(t, 3, p.ECNCapable, p.Prefix)
		require.EqualValues(t, 1, p.ECNMarked, p.Prefix)
	}
}
