package fastpath_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/delay"
	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/lab/measure"
	"sluice/moqt"
	"sluice/transport"
)

func present(group, id uint64) moqt.SubgroupHeader {
	return moqt.SubgroupHeader{GroupID: group, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: id, Priority: 100}
}

// TestRelayForwards expects the kernel to send all media on perfect links, for every kind of session, whoever has
// dialed. The ways of dialing with each kind of publisher and IP version are for make check.
func TestRelayForwards(t *testing.T) {
	for i, tt := range []struct {
		publisher string
		v6        bool
	}{{"moqt", false}, {"https", true}, {"https", false}, {"moqt", true}} {
		for d := range dialAll + 1 {
			t.Run(fmt.Sprintf("%s, v6=%v, %v", tt.publisher, tt.v6, d), func(t *testing.T) {
				if i != int(d) {
					thorough.Only(t)
				}
				w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 2}, v6: tt.v6, dialed: d})
				p := w.publisher(tt.publisher)
				var viewers []*viewer
				for i, scheme := range []string{"moqt", "https", "moqt", "https"} {
					viewers = append(viewers, w.subscribe(w.connect(w.lab.Subscribers[i%2], scheme, nil,
						transport.Limits{}), trackName(0)))
				}
				w.forwardsGroups(w.broadcast(<-p.subscribed), viewers, "open_ahead", "seal_ahead")
				counts := w.report()
				require.Equal(t, counts["copy_sent"]+counts["copy_lost"], counts["seal_ahead"]+counts["seal_computed"])
			})
		}
	}
}

// TestNoRoomForConnections has more connections than the kernel takes. The media sender serves the others.
func TestNoRoomForConnections(t *testing.T) {
	w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 1}, room: 2})
	p := w.publisher("moqt")
	var viewers []*viewer
	for range 3 {
		viewers = append(viewers, w.subscribe(w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{}),
			trackName(0)))
	}
	b := w.broadcast(<-p.subscribed)
	for group := uint64(0); w.look().Reasons["copy_sent"] == 0; group++ {
		require.Less(t, group, uint64(200), "the kernel serves nobody")
		b.send(present(group, 0), 0, 2*time.Millisecond, 1000, 100, 500)
		for _, v := range viewers {
			w.expect(v, b, group)
		}
	}
}

// forwardsGroups publishes groups of objects small and large, which the kernel is to send.
func (w *world) forwardsGroups(b *broadcast, viewers []*viewer, counters ...string) {
	w.Helper()
	group := uint64(0)
	w.forwards(func() {
		b.send(present(group, group%2*7), 0, 2*time.Millisecond, 9000, 3000, 1000, 100, 5000)
		for _, v := range viewers {
			w.expect(v, b, group)
		}
		group++
	}, counters...)
}

// BenchmarkDelay measures the delay that the relay adds to video of 3 Mbit/s at 25 frames a second, from device to
// device: the first and the last packets of frames, for all subscribers. It also reports what the relay measures by
// itself, of all packets.
func BenchmarkDelay(b *testing.B) {
	for _, subscribers := range []int{1, 10} {
		for _, off := range []bool{false, true} {
			b.Run(fmt.Sprintf("subscribers=%d/fastpath=%v", subscribers, !off), func(b *testing.B) {
				w := newWorld(b, worldConfig{topology: lab.Topology{Subscribers: subscribers}, off: off})
				p := w.publisher("moqt")
				for _, h := range w.lab.Subscribers {
					w.subscribe(w.connect(h, "moqt", nil, transport.Limits{}), trackName(0))
				}
				cast := w.broadcast(<-p.subscribed)
				second := func(group uint64) {
					sizes := []int{60_000}
					for range 24 {
						sizes = append(sizes, 13_000)
					}
					cast.send(present(group, 0), 0, 40*time.Millisecond, sizes...)
				}
				second(0)
				second(1)
				w.loop.Measure(true)
				if !off {
					w.fast.Measure(true)
				}
				capture, err := w.lab.StartCapture(lab.Point{Device: w.lab.Relay.Device("up"), Direction: lab.ToHost},
					lab.Point{Device: w.lab.Relay.Device("down"), Direction: lab.FromHost})
				require.NoError(b, err)
				for i := range b.N {
					second(uint64(2 + i))
				}
				packets, err := capture.Stop()
				require.NoError(b, err)
				delays := measure.MatchBursts(packets)
				for name, d := range map[string]measure.Delays{"first": delays.First(), "last": delays.Last()} {
					b.ReportMetric(float64(d.Quantile(.5).Microseconds()), name+"_p50_us")
					b.ReportMetric(float64(d.Quantile(.99).Microseconds()), name+"_p99_us")
				}
				b.ReportMetric(float64(len(delays.Matched)), "frames")
				w.reportDelays(b)
			})
		}
	}
}

// reportDelays reports the delays that the relay has measured.
func (w *world) reportDelays(b *testing.B) {
	all := map[string]delay.Histogram{"process": w.loop.Delays()}
	if w.fast != nil {
		kernel, err := w.fast.Delays()
		require.NoError(b, err)
		all["kernel"] = kernel
	}
	for by, h := range all {
		for name, q := range map[string]float64{"p50": .5, "p99": .99} {
			bin := 0
			for bin < delay.Bins-2 && float64(h.Below(bin+1)) < q*float64(h.Count()) {
				bin++
			}
			b.ReportMetric(float64(delay.Start(bin+1).Microseconds()), by+"_"+name+"_us")
		}
		b.ReportMetric(float64(h.Count()), by+"_packets")
	}
}
