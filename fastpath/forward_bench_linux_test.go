package fastpath

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab"
)

// BenchmarkForward measures the whole run of server_ingress for a packet of 1,200 bytes, as the kernel's statistics have it.
func BenchmarkForward(b *testing.B) {
	for _, n := range []int{0, 1, 5, 10, 20} {
		b.Run(fmt.Sprintf("subscribers=%d", n), func(b *testing.B) {
			r := newRig(b, lab.Topology{Subscribers: max(n, 1)}, false)
			if n > 0 {
				r.subscribeAll()
			} else {
				require.NoError(b, r.SetTrack(5, 128, nil))
			}
			r.publish(stream(3, 0, 0, subgroupHeader(77, 1, 1, 9)))
			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			require.NoError(b, err)
			defer stats.Close()
			before, err := r.ingress.ServerIngress.Stats()
			require.NoError(b, err)
			offset := uint64(len(subgroupHeader(77, 1, 1, 9)))
			for range b.N {
				r.publish(stream(3, offset, 0, make([]byte, 1160)))
				offset += 1160
				for _, s := range r.subscribers {
					state := &r.kernel.subscribers[s.index]
					state.InFlight, state.LedgerLow = 0, state.NextPn
					state.DataLimit = 1 << 40
				}
			}
			after, err := r.ingress.ServerIngress.Stats()
			require.NoError(b, err)
			runs := float64(after.RunCount - before.RunCount)
			b.ReportMetric(float64((after.Runtime-before.Runtime).Nanoseconds())/runs, "bpf_ns/op")
			if n > 0 {
				b.ReportMetric(float64(r.counts()["copy_sent"])/float64(n*(b.N+1)), "sent/offered")
			}
		})
	}
}
