package fastpath

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab"
)

// BenchmarkRTP measures whole runs of rtp_ingress, as the kernel's statistics have them, for packets of the size that
// fills a datagram on Ethernet. They include the cost of sending the clones.
func BenchmarkRTP(b *testing.B) {
	for _, n := range []int{0, 1, 10, 20, 50} {
		b.Run(fmt.Sprintf("players=%d", n), func(b *testing.B) { benchmarkRTP(b, n) })
	}
}

func benchmarkRTP(b *testing.B, n int) {
	r := newRTPRig(b, lab.Topology{Subscribers: 1}, false, Settings{MaxCopies: DefaultMaxCopies})
	for range n {
		r.join(r.lab.Subscribers[0]).Forward(true)
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	require.NoError(b, err)
	defer stats.Close()
	payload := make([]byte, 1400)
	before := r.rtpStats()
	var runs []time.Duration
	for i := range b.N {
		p := rtpPacket(i+1, payload)
		r.publish(p)
		for _, player := range r.players {
			r.receive(player)
		}
		r.take(p)
		after := r.rtpStats()
		if after.RunCount == before.RunCount+1 {
			runs = append(runs, after.Runtime-before.Runtime)
		}
		before = after
	}
	if len(runs) == 0 {
		return // other packets came with each of a few
	}
	slices.Sort(runs)
	for name, q := range map[string]float64{"p50": .5, "p99": .99} {
		b.ReportMetric(float64(runs[int(q*float64(len(runs)-1))].Nanoseconds()), name+"_bpf_ns/op")
	}
	counts, err := r.Counts()
	require.NoError(b, err)
	require.EqualValues(b, n*b.N, counts["copy_sent"])
}

func (r *rtpRig) rtpStats() *ebpf.ProgramStats {
	s, err := r.media.rtp.objects.RtpIngress.Stats()
	require.NoError(r.t, err)
	return s
}
