package media

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/internal/packet"
	"sluice/track"
)

// benchHooks learn the keys of the peer and a connection ID, and say who opens ACKs.
type benchHooks struct {
	Hooks
	id     []byte
	peer   packet.Sealer
	reader bool
	seen   atomic.Int64 // packets that quic-go or the reader has opened
}

func (h *benchHooks) ConnectionID(id quic.ConnectionID, usable bool) {
	if usable {
		h.id = id.Bytes()
	}
	h.Hooks.ConnectionID(id, usable)
}

func (h *benchHooks) Keys(generation uint64, suite uint16, version uint32, read, write []byte) {
	if read != nil {
		if k, err := packet.NewKey(generation, suite, version, read); err == nil {
			h.peer.Install(generation, k)
		}
	}
	h.Hooks.Keys(generation, suite, version, read, write)
}

func (h *benchHooks) Received(largest int64, phase int, at time.Time) {
	h.seen.Add(1)
	h.Hooks.Received(largest, phase, at)
}

func (h *benchHooks) Take(p quic.OfferedPacket) bool {
	taken := h.reader && h.Hooks.Take(p)
	if taken {
		h.seen.Add(1)
	}
	return taken
}

// BenchmarkAckPacket is the CPU time of the whole process for a packet with an ACK over the loopback device, from the
// system call that sends it on: through quic-go, through the reader, and for a packet that is only read. Packets come
// one each 500 µs, so that each wakes who waits for it, or 20 each 10 ms.
func BenchmarkAckPacket(b *testing.B) {
	for _, suite := range []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_CHACHA20_POLY1305_SHA256} {
		for _, burst := range []int{1, 20} {
			for _, way := range []string{"quic-go", "reader", "read only"} {
				name := fmt.Sprintf("%s/burst=%d/%s", tls.CipherSuiteName(suite), burst, way)
				b.Run(name, func(b *testing.B) { benchmarkAckPacket(b, suite, way, burst) })
			}
		}
	}
}

// BenchmarkTake is what the reader does for such a packet.
func BenchmarkTake(b *testing.B) {
	for _, suite := range suites {
		b.Run(tls.CipherSuiteName(suite), func(b *testing.B) {
			r, sent := newReading(b, func(c *worldConfig) { c.suite = suite })
			var packets []quic.OfferedPacket
			for n := range uint32(1024) {
				packets = append(packets, r.packet(n, 0, ackFrame(sent, sent)...))
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%len(packets) == 0 {
					r.s.read.numbers, r.s.read.known = nil, 0
				}
				if !r.s.Take(packets[n%len(packets)]) {
					b.Fatal("not taken")
				}
			}
		})
	}
}

func benchmarkAckPacket(b *testing.B, suite uint16, way string, burst int) {
	useSuite(b, suite)
	h := &benchHooks{reader: way == "reader"}
	site := newSiteWith(b, loopback(b), LoopConfig{Shards: 1}, func(s *site, cfg SenderConfig) (quic.Hooks, *Sender) {
		h.Hooks = s.loop.NewSender(cfg).Hooks()
		return h, h.Sender
	})
	peer := loopback(b)
	site.connect(context.Background(), false, peer, new(quic.Config), 4)
	log := track.NewLog(0, nil)
	_, err := h.NewSubscription(SubscriptionConfig{}).OpenStream(StreamConfig{Log: log})
	require.NoError(b, err)
	log.Append(make([]byte, 100))
	for h.Stats().InFlight > 0 || h.Stats().Acks == 0 || h.leaves() { // until quic-go has probed the MTU
		time.Sleep(time.Millisecond)
	}
	number, acked := uint64(100_000), h.largestAcked()
	before, cpu := h.seen.Load(), cpuTime()
	b.ResetTimer()
	for i := range b.N {
		p := append(append(make([]byte, 0, 100), 0x43), h.id...)
		p = binary.BigEndian.AppendUint32(p, uint32(number))
		p = packet.AppendFrame(p, packet.FrameAck, acked, 10, 0, 0)
		p = h.peer.Seal(p, len(h.id)+5, number, 0)
		h.peer.Protect()
		if way == "read only" {
			p[0] = 0 // not QUIC
		}
		number++
		_, err := peer.WriteTo(p, site.ln.Addr())
		require.NoError(b, err)
		if i%burst == burst-1 {
			time.Sleep(time.Duration(burst) * 500 * time.Microsecond)
		}
	}
	time.Sleep(10 * time.Millisecond)
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(h.seen.Load()-before)/float64(b.N), "opened/op")
}

func (h *benchHooks) largestAcked() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recovery.largestAcked
}

// leaves reports whether quic-go has to see ACKs.
func (h *benchHooks) leaves() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leavesAcks()
}
