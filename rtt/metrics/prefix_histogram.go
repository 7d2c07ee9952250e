package metrics

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"sluice/rtt/report"
)

// newPrefixHistogram returns the metric of a prefix: a classic histogram, and with logarithmic bins also a native one,
// whose buckets are the bins.
func newPrefixHistogram(desc *prometheus.Desc, h *report.Histogram, labels []string) prometheus.Metric {
	if h.Width != 0 {
		return prometheus.MustNewConstHistogram(desc, h.Count, h.Sum.Seconds(), buckets(h), labels...)
	}
	native := make(map[int]int64)
	for bin, n := range h.Bins[1:] {
		if n > 0 {
			native[report.FirstPower+bin+1] = int64(n) // by the power at the end
		}
	}
	return bothHistograms{prometheus.MustNewConstNativeHistogram(desc, h.Count, h.Sum.Seconds(), native, nil,
		h.Bins[0], report.Scale, h.End(0), time.Time{}, labels...), buckets(h)}
}

// bothHistograms is a native histogram that also has classic buckets, for those who do not store native ones.
type bothHistograms struct {
	prometheus.Metric
	classic map[float64]uint64
}

// Write implements prometheus.Metric.
func (b bothHistograms) Write(m *dto.Metric) error {
	if err := b.Metric.Write(m); err != nil {
		return err
	}
	for bound, n := range b.classic {
		m.Histogram.Bucket = append(m.Histogram.Bucket, &dto.Bucket{
			UpperBound: proto.Float64(bound), CumulativeCount: proto.Uint64(n),
		})
	}
	slices.SortFunc(m.Histogram.Bucket, func(x, y *dto.Bucket) int {
		return cmp.Compare(x.GetUpperBound(), y.GetUpperBound())
	})
	return nil
}

// buckets counts the RTTs up to the upper bound of each bucket, in seconds. Buckets double in width, so that there are
// few. The last bin has no bound, and is in no bucket.
func buckets(h *report.Histogram) map[float64]uint64 {
	counts := make(map[float64]uint64)
	var below uint64
	ends := doublings(h.Width)
	for bin := range report.MaxBins(h.Width) - 1 {
		if bin < len(h.Bins) {
			below += h.Bins[bin]
		}
		if ends(bin) {
			counts[h.End(bin)] = below
		}
	}
	return counts
}

// doublings tells which bins end a bucket.
func doublings(width time.Duration) func(bin int) bool {
	if width == 0 {
		return func(bin int) bool { return (bin+report.FirstPower)%(1<<report.Scale) == 0 }
	}
	return func(bin int) bool { return bits.OnesCount(uint(bin+1)) == 1 }
}
