package media

import (
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"sluice/internal/packet"
	"sluice/track"
)

var suites = []uint16{
	tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256,
}

// BenchmarkSeal protects packets of 1,200 bytes, eight in a turn.
func BenchmarkSeal(b *testing.B) {
	for _, suite := range suites {
		b.Run(tls.CipherSuiteName(suite), func(b *testing.B) {
			k, err := packet.NewKey(0, suite, packet.Version1, testSecret)
			require.NoError(b, err)
			var s packet.Sealer
			s.Install(0, k)
			p := make([]byte, 1200-packet.TagLength, 1200) // with any content
			b.SetBytes(1200)
			b.ReportAllocs()
			cpu := cpuTime()
			for n := uint64(0); b.Loop(); n++ {
				if s.Seal(p, 13, n, 0); n%8 == 7 {
					s.Protect()
				}
			}
			b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkPacket does all work for a packet except the system call: scheduling, claim, ledger, frame, copy, seal.
func BenchmarkPacket(b *testing.B) {
	for _, suite := range suites {
		b.Run(tls.CipherSuiteName(suite), func(b *testing.B) {
			w := newWorld(b, func(c *worldConfig) {
				c.sender.NewController = func(int) congestion.Controller { return wideController{} }
			}, func(c *worldConfig) { c.suite = suite })
			w.sock.discard = true
			log := track.NewLog(0, nil)
			log.Discard(1 << 62)
			w.stream(w.subscribe(), log)
			p := testBytes(0, 40*(testMTU-60))
			b.SetBytes(int64(testMTU))
			b.ReportAllocs()
			sent, cpu := uint64(0), cpuTime()
			for sent < uint64(b.N) {
				log.Append(p)
				feeds, senders, _ := w.shard.take(nil, nil)
				before := w.s.state.Packets.Load()
				for _, f := range feeds {
					f.serve(w.clock.t)
				}
				for _, s := range senders {
					s.serve(w.clock.t, w.shard.batch, nil)
				}
				w.shard.batch.Flush()
				n := w.s.state.Packets.Load() - before
				sent += n
				next := w.s.PeekPacketNumber()
				w.ackRanges(quic.AckRange{Smallest: next - int64(n), Largest: next - 1})
			}
			b.ReportMetric(float64(cpuTime()-cpu)/float64(sent), "cpu-ns/op")
		})
	}
}

func BenchmarkClaim(b *testing.B) {
	var s claim.ConnState
	var st claim.StreamState
	l := make(claim.Ledger, 1024)
	l.Clear()
	s.DataLimit.Store(1 << 62)
	i, cpu := claim.NewInfo(1, 1200, 40, claim.KindStream), cpuTime()
	for at := int64(0); b.Loop(); at += 1200 {
		n, _, _ := s.Begin(l)
		s.TakeData(1200, false, 0)
		st.Claim(at, at+1200, false)
		s.Commit(l, n, 1, at, i)
		s.LedgerLow.Store(n)
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
}

// BenchmarkAck processes ACK frames that newly acknowledge two packets and repeat 30 ranges.
func BenchmarkAck(b *testing.B) {
	w := newWorld(b, func(c *worldConfig) {
		c.sender.NewController = func(int) congestion.Controller { return wideController{} }
	})
	log := track.NewLog(0, nil)
	log.Discard(1 << 62)
	w.stream(w.subscribe(), log)
	w.run()
	w.sock.discard = true
	p := testBytes(0, 2000)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		log.Append(p)
		feeds, _, _ := w.shard.take(nil, nil)
		for _, f := range feeds {
			f.serve(w.clock.t)
		}
		w.shard.batch.Flush()
		next := w.s.PeekPacketNumber()
		ranges := []quic.AckRange{{Smallest: next - 2, Largest: next - 1}}
		for i := range int64(30) {
			if at := next - 5 - 4*i; at > 5 {
				ranges = append(ranges, quic.AckRange{Smallest: at, Largest: at + 1})
			}
		}
		b.StartTimer()
		w.ackRanges(ranges...)
	}
}

// wideController never holds anything back.
type wideController struct{}

func (wideController) Acked(congestion.AckEvent) {}
func (wideController) Lost(congestion.LossEvent) {}
func (wideController) Spurious(clock.Time)       {}
func (wideController) Window() int               { return congestion.MaxWindow }
func (wideController) Rate(time.Duration) int64  { return 0 }
func (wideController) Reset(int)                 {}

// audience is many senders on one loop, whose packets go to sockets that are not read.
type audience struct {
	loop    *Loop
	senders []Hooks
	log     *track.Log
}

func newAudience(t testing.TB, n int, cfg LoopConfig, suite uint16) *audience {
	return newAudienceOn(t, 1, n, cfg, suite)
}

// newAudienceOn makes an audience whose senders are spread over sockets.
func newAudienceOn(t testing.TB, sockets, n int, cfg LoopConfig, suite uint16) *audience {
	open := func() net.PacketConn {
		udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		udp.SetWriteBuffer(4 << 20)
		t.Cleanup(func() { udp.Close() })
		return udp
	}
	var out []net.PacketConn
	for range sockets {
		out = append(out, open())
	}
	sinks := []net.PacketConn{open(), open()}
	a := &audience{log: track.NewLog(0, nil)}
	a.log.Discard(1 << 62)
	var err error
	a.loop, err = NewLoop(cfg, out...)
	require.NoError(t, err)
	t.Cleanup(func() { a.loop.Close() })
	for i := range n {
		sink := sinks[i%len(sinks)]
		s := a.loop.NewSender(SenderConfig{
			NewController: func(int) congestion.Controller { return wideController{} }, Socket: out[i%len(out)],
		}).Hooks()
		s.NextPacketNumber()
		s.PeerParameters(defaultParams())
		s.Keys(0, suite, packet.Version1, nil, testSecret)
		id := quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4})
		s.Path(quic.PathInfo{Remote: sink.LocalAddr(), DestConnID: id, MTU: testMTU})
		_, err := s.NewSubscription(SubscriptionConfig{}).OpenStream(StreamConfig{Prefix: []byte("prefix"), Log: a.log})
		require.NoError(t, err)
		s.mu.Lock()
		s.ledger.grow()
		s.ledger.skipAt = 1 << 60 // publish acknowledges whole ranges
		s.mu.release()
		a.senders = append(a.senders, s)
	}
	return a
}

// publish appends to the log, waits until every subscriber has got it, and acknowledges all. It returns how long
// sending took.
func (a *audience) publish(p []byte) time.Duration {
	before, begun := make([]uint64, len(a.senders)), time.Now()
	want := uint64(a.log.End()) + uint64(len(p)) + 6
	for i, s := range a.senders {
		before[i] = uint64(s.PeekPacketNumber())
	}
	a.log.Append(p)
	for _, s := range a.senders {
		for s.state.DataSent.Load() < want {
			time.Sleep(100 * time.Microsecond) // to spin would count as CPU time
		}
	}
	now := time.Now()
	for i, s := range a.senders {
		for { // the last packet is claimed, but perhaps not yet out of the sender's hands
			next := s.PeekPacketNumber()
			all := []quic.AckRange{{Smallest: int64(before[i]), Largest: next - 1}}
			_, err := s.Acked(&quic.AckInfo{Ranges: all, Received: now})
			if err == nil && s.state.InFlight.Load() == 0 {
				break
			}
			time.Sleep(100 * time.Microsecond) // to spin would count as CPU time
		}
	}
	return now.Sub(begun)
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkFanOut sends one track to many subscribers: packets as they come (1,200 bytes), and video frames (15,000
// bytes).
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		for _, size := range []int{1200, 15000} {
			for _, noGSO := range []bool{false, true} {
				b.Run(fmt.Sprintf("%d/%dB/GSO=%v", n, size, !noGSO), func(b *testing.B) {
					a := newAudience(b, n, LoopConfig{NoGSO: noGSO}, tls.TLS_AES_128_GCM_SHA256)
					p := testBytes(0, size)
					a.publish(p)
					before, cpu := a.loop.Stats(), cpuTime()
					b.ResetTimer()
					for range b.N {
						a.publish(p)
					}
					b.StopTimer()
					st := a.loop.Stats()
					packets := float64(st.Packets - before.Packets)
					b.ReportMetric(float64(cpuTime()-cpu)/packets, "cpu-ns/packet")
					b.ReportMetric(float64(st.Calls-before.Calls)/packets, "syscalls/packet")
					b.ReportMetric(packets/float64(b.N)/float64(n), "packets/subscriber")
				})
			}
		}
	}
}

// BenchmarkShards sends a large frame to 200 subscribers: by one shard, by two on one socket, and by two that have a
// socket each. Call it with -cpu 1,2.
func BenchmarkShards(b *testing.B) {
	for _, c := range []struct{ shards, sockets int }{{1, 1}, {2, 1}, {2, 2}} {
		for _, noGSO := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dshards/%dsockets/GSO=%v", c.shards, c.sockets, !noGSO), func(b *testing.B) {
				cfg := LoopConfig{Shards: c.shards, NoGSO: noGSO}
				a := newAudienceOn(b, c.sockets, 200, cfg, tls.TLS_CHACHA20_POLY1305_SHA256)
				p := testBytes(0, 60_000)
				a.publish(p)
				before, cpu := a.loop.Stats(), cpuTime()
				var sending time.Duration
				for b.Loop() {
					sending += a.publish(p)
				}
				packets := float64(a.loop.Stats().Packets - before.Packets)
				b.ReportMetric(float64(cpuTime()-cpu)/packets, "cpu-ns/packet")
				b.ReportMetric(float64(sending)/packets, "ns/packet")
			})
		}
	}
}

// BenchmarkMemory reports the memory of a subscriber of a 1 Mbit/s track in this package, with its stream open.
func BenchmarkMemory(b *testing.B) {
	const n = 1000
	var before, after runtime.MemStats
	for range b.N {
		runtime.GC()
		runtime.ReadMemStats(&before)
		a := newAudience(b, n, LoopConfig{}, tls.TLS_CHACHA20_POLY1305_SHA256)
		for range 20 {
			a.publish(testBytes(0, 5000))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/subscriber")
	}
}
