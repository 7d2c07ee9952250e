package history

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/report"
)

// BenchmarkJoin joins a day of minutes of 200 prefixes, each with 20 or 1,000 RTTs in a minute. It reports what a
// minute and an hour of a prefix take on disk, the time for a row that is read, and how large the heap was.
func BenchmarkJoin(b *testing.B) {
	for _, count := range []int{20, 1000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) { benchmarkJoin(b, 200, count) })
	}
}

func benchmarkJoin(b *testing.B, prefixes, count int) {
	dir := b.TempDir()
	w, err := NewWriter(dir, Limits{Size: plenty}, nil)
	require.NoError(b, err)
	r := rand.New(rand.NewPCG(1, 2))
	for minute := range 24 * 60 {
		at := firstDay.Add(time.Duration(minute) * time.Minute)
		i := &report.Interval{Start: at, End: at.Add(time.Minute), Aggregation: new(report.Aggregation)}
		for n := range prefixes {
			i.Prefixes = append(i.Prefixes, busyPrefix(r, n, count))
		}
		require.NoError(b, w.Interval(i))
	}
	require.NoError(b, w.Close())
	day, err := lookAt(dir, firstDay)
	require.NoError(b, err)
	defer day.close()
	var fine int64
	for _, f := range day.files {
		size, err := f.size()
		require.NoError(b, err)
		fine += size
	}
	path := filepath.Join(b.TempDir(), "hours")
	heap := watchHeap()
	for b.Loop() {
		_ = os.Remove(path)
		require.NoError(b, writeHours(b.Context(), path, day, maxJoined, nil))
	}
	b.ReportMetric(float64(heap())/1e6, "MB-heap")
	hourly, err := os.Stat(path)
	require.NoError(b, err)
	minutes := float64(24 * 60 * prefixes)
	b.ReportMetric(float64(fine)/minutes, "B/minute")
	b.ReportMetric(float64(hourly.Size())/minutes*60, "B/hour")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/minutes/float64(b.N), "ns/row")
}

// watchHeap begins to look at the heap. The function that it returns ends that, and returns the largest size seen.
func watchHeap() (end func() uint64) {
	runtime.GC()
	done, largest := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		most := uint64(0)
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-done:
				largest <- most
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(done)
		return <-largest
	}
}

// busyPrefix returns a prefix whose RTTs are spread around one of its own.
func busyPrefix(r *rand.Rand, n, count int) report.Prefix {
	around := 0.005 * math.Exp2(float64(n%50)/10)
	h := report.Histogram{Count: uint64(count), Min: time.Hour, Bins: make([]uint64, report.LogarithmicBins)}
	for range count {
		s := around * math.Exp(math.Abs(r.NormFloat64())/3)
		rtt := time.Duration(s * 1e9)
		h.Bins[1+int(math.Floor(math.Log2(s)*32))-report.FirstPower]++
		h.Min, h.Max, h.Sum = min(h.Min, rtt), max(h.Max, rtt), h.Sum+rtt
	}
	traffic := report.Traffic{Packets: uint64(count + r.IntN(count)), Bytes: uint64(r.IntN(1000 * count))}
	return report.Prefix{
		Group: "customer " + strconv.Itoa(n), RTT: h, Sent: report.PrefixTraffic{TCPTimestamps: traffic},
		Received: report.PrefixTraffic{TCPTimestamps: traffic, Retransmissions: uint64(r.IntN(3))},
	}
}
