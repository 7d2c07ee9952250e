package fastpath_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/webtransport-go"
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

// TestVLAN puts the publisher and the subscriber into VLANs of their own. The programs are on the VLANs' devices, or on
// those below, where they see the tags.
func TestVLAN(t *testing.T) {
	for name, devices := range map[string][]string{"with tags": {"up", "down"}, "without tags": {"up.5", "down.6"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 1}, devices: devices,
				prepare: func(w *world) {
					w.at = map[*lab.Host]netip.Addr{
						w.lab.Publisher:      w.vlan(w.lab.Publisher, 5, w.lab.Relay, "up"),
						w.lab.Subscribers[0]: w.vlan(w.lab.Subscribers[0], 6, w.lab.Relay, "down"),
					}
				}})
			p := w.publisher("moqt")
			v := w.subscribe(w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{}), trackName(0))
			b := w.broadcast(<-p.subscribed)
			group := uint64(0)
			w.forwards(func() {
				b.send(present(group, 1), 0, time.Millisecond, 900, 800, 700)
				w.expect(v, b, group)
				group++
			})
		})
	}
}

// vlan joins a host and a device of the relay by a VLAN, and returns the relay's address in it.
func (w *world) vlan(h *lab.Host, id int, relay *lab.Host, device string) netip.Addr {
	w.Helper()
	for i, end := range []struct {
		host   *lab.Host
		device string
	}{{relay, device}, {h, "eth0"}} {
		name := fmt.Sprintf("%s.%d", end.device, id)
		for _, args := range [][]string{
			{"link", "add", "link", end.device, "name", name, "type", "vlan", "id", fmt.Sprint(id)},
			{"addr", "add", fmt.Sprintf("10.%d.0.%d/24", id, i+1), "dev", name},
			{"link", "set", name, "up"},
		} {
			out := new(bytes.Buffer)
			cmd := exec.Command("ip", args...)
			cmd.Stdout, cmd.Stderr = out, out
			err := end.host.Run(cmd)
			if strings.Contains(out.String(), "Unknown device type") {
				w.Skip("needs a kernel with VLANs (8021q)")
			}
			require.NoError(w, err, "%v: %s", args, out)
		}
	}
	return netip.AddrFrom4([4]byte{10, byte(id), 0, 1})
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

// TestDrafts expects the kernel to forward between all drafts whose data streams are the same, and within the limits of
// WebTransport sessions.
func TestDrafts(t *testing.T) {
	for i, draft := range []moqt.Version{moqt.Draft18, moqt.Draft20, moqt.Draft22} {
		t.Run(draft.String(), func(t *testing.T) {
			w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 2}})
			w.draft = draft
			p := w.publisher([]string{"moqt", "https"}[i%2])
			var viewers []*viewer
			w.session = webtransport.Config{MaxIncomingUniStreams: 20, MaxIncomingData: 200_000}
			for _, w.draft = range moqt.Versions() {
				if w.draft.DataLayout() != moqt.DataLayout1 {
					continue
				}
				scheme := []string{"https", "moqt"}[i%2]
				conn := w.connect(w.lab.Subscribers[len(viewers)%2], scheme, nil, transport.Limits{})
				require.Equal(t, w.draft, conn.Version())
				viewers = append(viewers, w.subscribe(conn, trackName(0)))
			}
			w.forwardsGroups(w.broadcast(<-p.subscribed), viewers)
		})
	}
}

// TestUnread resets a publisher's streams before the relay can read their headers. The streams that the kernel has
// opened for them are reset, and their memory becomes free.
func TestUnread(t *testing.T) {
	w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 1}})
	p := w.publisher("moqt")
	v := w.subscribe(w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{}), trackName(0))
	b := w.broadcast(<-p.subscribed)
	for g := range uint64(200) {
		h := present(g, 1)
		str, err := b.pub.OpenSubgroup(t.Context(), h)
		require.NoError(t, err)
		enc := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
		o, err := enc.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1000})
		require.NoError(t, err)
		_, err = str.Write(append(o, make([]byte, 100)...))
		require.NoError(t, err)
		time.Sleep(time.Duration(g*5) * time.Microsecond) // unsent bytes are never sent
		str.CancelWrite(uint64(moqt.ResetCancelled))
	}
	b.send(present(1000, 0), 0, 0, 100)
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.objects[moqt.Location{Group: 1000}] != nil
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return w.fast.Streams() == 0 }, time.Minute, 50*time.Millisecond)
	require.NotZero(t, w.report()["copy_sent"])
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
				delays := measure.MatchBursts(packets, 0, 1, measure.BurstConfig{})
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
