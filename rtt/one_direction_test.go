package rtt

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
	"sluice/rtt/pcap"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// A download is a TCP connection in which alice gets a segment from bob every few ms. The observer is between them, 20
// ms from bob and back, 10 ms and the queue from alice and back.
type download struct {
	script
	queue func(ms float64) float64 // how long a segment that passes then waits behind the observer, ms
}

const downloadFar, downloadNear = 20, 10

// risingQueue is up to 80 ms long: it grows for two seconds, and then shrinks.
func risingQueue(ms float64) float64 { return 80 - math.Abs(math.Mod(ms, 4000)-2000)/25 }

// clocks returns the times of the ends' clocks when a packet that they have just sent passes the observer.
func (d *download) clocks(ms float64) (ofAlice, ofBob uint32) {
	return 5000 + uint32(ms-downloadNear/2), 0xfffffc00 + uint32(int64(ms-downloadFar/2))
}

func (d *download) write(segments int) {
	val, _ := d.clocks(100)
	d.ip(100, wire.TCP{Seq: 99, Flags: wire.SYN, Timestamps: true, Val: val}.Between(alice, bob))
	at := float64(100 + downloadFar)
	_, heard := d.clocks(at)
	d.ip(at, wire.TCP{
		Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK, Timestamps: true, Val: heard, Ecr: val,
	}.Between(bob, alice))
	at += downloadNear
	said, _ := d.clocks(at)
	d.tcp(at, alice, bob, wire.TCP{Seq: 100, Ack: 500, Timestamps: true, Val: said, Ecr: heard})
	for i := range uint32(segments) {
		at += 7.3
		_, heard := d.clocks(at)
		d.tcp(at, bob, alice, wire.TCP{
			Seq: 500 + 1000*i, Ack: 100, Timestamps: true, Val: heard, Ecr: said, Length: 1000,
		})
		answered := at + downloadNear + d.queue(at)
		val, _ := d.clocks(answered)
		d.tcp(answered, alice, bob, wire.TCP{Seq: 100, Ack: 1500 + 1000*i, Timestamps: true, Val: val, Ecr: heard})
	}
	slices.SortStableFunc(d.packets, func(a, b pcap.Packet) int { return a.At.Compare(b.At) })
}

// sentBy returns the packets that a host has sent.
func sentBy(packets []pcap.Packet, host netip.Addr) []pcap.Packet {
	return slices.DeleteFunc(slices.Clone(packets), func(p pcap.Packet) bool {
		from, _ := refAddresses(gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.NoCopy))
		return from != host
	})
}

// samplesOf returns the samples of a capture.
func samplesOf(t *testing.T, packets []pcap.Packet) []report.Sample {
	var got reporttest.Sink
	mustReplay(t, MonitorConfig{IncludeSYN: true, Sink: &got}, captureFile(t, packets...))
	return got.Samples
}

// TestOneDirectionBesideBoth takes the server's packets out of a capture. The RTTs of the path must be as from both
// directions, but for a tick of the server's clock.
func TestOneDirectionBesideBoth(t *testing.T) {
	requireKernel(t)
	d := download{queue: risingQueue}
	d.write(2000)

	const far = downloadFar * time.Millisecond
	both := make(map[time.Time]time.Duration) // RTT of the path by the time of the ACK
	for _, s := range samplesOf(t, d.packets) {
		require.False(t, s.OneDirection)
		if s.Source == alice {
			both[s.Time] = far + s.RTT
		} else {
			require.Equal(t, far, s.RTT)
		}
	}
	alone := samplesOf(t, sentBy(d.packets, alice.Addr()))
	require.Equal(t, report.MethodHandshake, alone[0].Method)
	require.Equal(t, 2001, len(alone), "the handshake, and each ACK")
	require.Equal(t, len(both), len(alone))
	for _, s := range alone {
		require.True(t, s.OneDirection)
		require.Equal(t, bob, s.Source)
		require.InDelta(t, both[s.Time], s.RTT, float64(time.Millisecond), "at %v", s.Time.Sub(captureBegin))
	}
	require.Empty(t, samplesOf(t, sentBy(d.packets, bob.Addr())), "data leaves when the server wants")
}

// TestOneDirectionAggregated takes the server's packets out of a capture. The RTTs of the whole path are then a part of
// the client's prefix, of the server's, or of both, and in no other part.
func TestOneDirectionAggregated(t *testing.T) {
	t.Parallel()
	requireKernel(t)
	d := download{queue: risingQueue}
	d.write(300)
	alone := sentBy(d.packets, alice.Addr())
	var want report.Histogram // of all RTTs, without bins
	for _, s := range samplesOf(t, alone) {
		want.Add(&report.Histogram{Count: 1, Sum: s.RTT, Min: s.RTT, Max: s.RTT})
	}
	require.EqualValues(t, 301, want.Count)
	for name, test := range map[string]struct {
		cfg      MonitorConfig
		prefixes []string // that have them
	}{
		"prefixes":       {MonitorConfig{}, []string{"192.0.2.0/24"}},
		"the other side": {MonitorConfig{AggregateReverse: true}, []string{"198.51.100.0/24"}},
		"load and parts": {
			MonitorConfig{AggregateLoad: 1, AggregateParts: true}, []string{"192.0.2.0/24", "198.51.100.0/24"},
		},
		"pairs": {MonitorConfig{AggregateBy: report.Keys{Pair: true, Protocol: true}}, []string{"192.0.2.0/24"}},
		"no place": {
			MonitorConfig{MaxPrefixes: 1, AggregateLoad: 1, AggregateParts: true},
			[]string{"192.0.2.0/24", "0.0.0.0/0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.IncludeSYN, test.cfg.Aggregate = true, time.Second
			got := make(map[string]report.Histogram)
			for _, i := range aggregatesOf(t, test.cfg, alone) {
				require.True(t, i.Aggregation.OneDirection)
				for n := range i.Prefixes {
					p := &i.Prefixes[n]
					require.Zero(t, p.RTT.Count+p.PeerRTT.Count+p.ByLoad.Idle.Count+p.ByLoad.Loaded.Count)
					if h := got[p.Prefix.String()]; p.OneDirection.Count > 0 {
						h.Add(&p.OneDirection)
						h.Bins = nil
						got[p.Prefix.String()] = h
					}
				}
			}
			require.Len(t, got, len(test.prefixes))
			for _, prefix := range test.prefixes {
				require.Equal(t, want, got[prefix], prefix)
			}
		})
	}
	t.Run("both directions", func(t *testing.T) {
		t.Parallel()
		for _, i := range aggregatesOf(t, MonitorConfig{IncludeSYN: true, Aggregate: time.Second}, d.packets) {
			for _, p := range i.Prefixes {
				require.Zero(t, p.OneDirection.Count)
			}
		}
	})
	t.Run("TCP without SYN", func(t *testing.T) {
		t.Parallel()
		for _, i := range aggregatesOf(t, MonitorConfig{TCP: true, Aggregate: time.Second}, alone) {
			require.False(t, i.Aggregation.OneDirection)
			for _, p := range i.Prefixes {
				require.Zero(t, p.OneDirection.Count)
			}
		}
	})
}

// aggregatesOf returns the aggregates of a capture.
func aggregatesOf(t *testing.T, cfg MonitorConfig, packets []pcap.Packet) []report.Interval {
	var got reporttest.Sink
	cfg.Sink = &got
	mustReplay(t, cfg, captureFile(t, packets...))
	require.NotEmpty(t, got.Intervals)
	return got.Intervals
}
