package fastpath

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	packets "sluice/internal/packet"
	"sluice/lab"
)

// BenchmarkForward measures whole runs of server_ingress, as the kernel's statistics have them, for packets of the
// largest size that publishers send, with key streams that were made ahead of time and without, and for packets that
// lie in fragments, as from a publisher that sends several at once. The longest run includes interrupts. With the tag
// unprotected it measures the rest of the work, without packet protection.
func BenchmarkForward(b *testing.B) {
	for _, sealing := range []string{"ahead", "computed"} {
		for _, n := range []int{0, 1, 5, 10, DefaultMaxCopies, 24} {
			b.Run(fmt.Sprintf("%s/subscribers=%d", sealing, n), func(b *testing.B) {
				benchmarkForward(b, n, 1, sealing, Settings{MaxCopies: max(n, 1)})
			})
		}
	}
	b.Run(fmt.Sprintf("fragments/subscribers=%d", DefaultMaxCopies), func(b *testing.B) {
		benchmarkForward(b, DefaultMaxCopies, 4, "ahead", Settings{})
	})
}

// benchmarkForward publishes bursts of packets to n subscribers.
func benchmarkForward(b *testing.B, n, burst int, sealing string, s Settings) {
	if sealing == "ahead" && packets.Unprotected {
		b.Skip("there is nothing to seal")
	}
	r := newRigFor(b, lab.Topology{Subscribers: min(max(n, 1), 24)}, false, s)
	r.crowd(n)
	if n > 0 {
		r.subscribeAll()
	} else {
		require.NoError(b, r.SetTrack(5, 128, nil))
	}
	for _, s := range r.subscribers {
		r.kernel.conns[s.index].Mtu = 1452 // the room that MaxUDPPayloadSize leaves
		if sealing == "ahead" {
			r.lookAhead(s)
		}
	}
	r.publish(stream(3, 0, 0, subgroupHeader(77, 1, 1, 9)))
	prepare := func() {}
	if sealing == "ahead" {
		c := r.openAhead()
		prepare = func() { c.Received(int64(r.nextPN) - 1) }
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	require.NoError(b, err)
	defer stats.Close()
	var runs []time.Duration
	before := r.ingressStats()
	offset := uint64(len(subgroupHeader(77, 1, 1, 9)))
	body := make([]byte, MaxUDPPayloadSize-36)
	for range b.N {
		prepare()
		var sent [][]byte
		for range burst {
			n := len(body) - quicvarint.Len(offset) // so that all packets are equally long
			sent = append(sent, r.packet(stream(3, offset, 0, body[:n])))
			offset += uint64(n)
		}
		r.publishBurst(sent)
		for _, s := range r.subscribers {
			state := &r.kernel.conns[s.index]
			state.InFlight, state.LedgerLow = 0, state.NextPn
			state.DataLimit = 1 << 40
			if sealing == "ahead" {
				r.connection(s.index).Acknowledged()
			}
		}
		after := r.ingressStats()
		if after.RunCount == before.RunCount+uint64(burst) {
			runs = append(runs, (after.Runtime-before.Runtime)/time.Duration(burst))
		}
		before = after
	}
	slices.Sort(runs)
	for name, q := range map[string]float64{"p50": .5, "p99": .99, "longest": 1} {
		b.ReportMetric(float64(runs[int(q*float64(len(runs)-1))].Nanoseconds()), name+"_bpf_ns/op")
	}
	counts, err := r.Counts()
	require.NoError(b, err)
	b.ReportMetric(float64(counts["open_ahead"])/float64(counts["packet_opened"]), "ahead/opened")
	if n > 0 {
		b.ReportMetric(float64(counts["copy_sent"])/float64(n*(burst*b.N+1)), "sent/offered")
		b.ReportMetric(float64(counts["seal_ahead"])/float64(counts["copy_sent"]), "ahead/sent")
	}
}

// publishBurst sends packets of one length with one call, by UDP GSO if there are several, and waits until the relay's
// socket has them.
func (r *rig) publishBurst(packets [][]byte) {
	var segments []byte
	if len(packets) > 1 {
		segments = binary.NativeEndian.AppendUint16(cmsg(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2),
			uint16(len(packets[0])))
		segments = append(segments, make([]byte, unix.CmsgSpace(2)-len(segments))...)
	}
	_, _, err := r.publisher.WriteMsgUDPAddrPort(slices.Concat(packets...), segments, r.relayAddr())
	require.NoError(r.t, err)
	for _, p := range packets {
		r.expectPacket(p)
	}
}

// cmsg is the header of a control message with n bytes of data.
func cmsg(level, typ int32, n int) []byte {
	b := make([]byte, unix.CmsgLen(0))
	*(*unix.Cmsghdr)(unsafe.Pointer(&b[0])) = unix.Cmsghdr{Level: level, Type: typ, Len: uint64(unix.CmsgLen(n))}
	return b
}

func (r *rig) ingressStats() *ebpf.ProgramStats {
	s, err := r.ingress.ServerIngress.Stats()
	require.NoError(r.t, err)
	return s
}
