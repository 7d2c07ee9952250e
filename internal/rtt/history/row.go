package history

import (
	"time"

	"sluice/internal/rtt/report"
)

// Row is what was aggregated of one prefix in one interval. Times are in UTC, and RTTs in ns.
type Row struct {
	Start time.Time `parquet:"start,timestamp(microsecond)"`
	End   time.Time `parquet:"end,timestamp(microsecond)"`

	Prefix string `parquet:"prefix,dict"` // or the name of a group

	// Of all protocols, from the prefix's view.
	SentPackets     uint64 `parquet:"sent_packets"`
	SentBytes       uint64 `parquet:"sent_bytes"`
	ReceivedPackets uint64 `parquet:"received_packets"`
	ReceivedBytes   uint64 `parquet:"received_bytes"`

	TCPSegments     uint64 `parquet:"tcp_segments"` // to and from the prefix
	Retransmissions uint64 `parquet:"retransmissions"`
	ECNCapable      uint64 `parquet:"ecn_capable"`
	ECNMarked       uint64 `parquet:"ecn_marked"`

	RTTs   uint64 `parquet:"rtts"`
	Min    int64  `parquet:"rtt_min"`
	Median int64  `parquet:"rtt_median"`
	P95    int64  `parquet:"rtt_p95"`
	Max    int64  `parquet:"rtt_max"`
	Sum    int64  `parquet:"rtt_sum"`

	// The histogram. Bin i has Counts[i-First].
	Width  int64    `parquet:"bin_width"` // ns; 0: the bins are logarithmic, 2^((i-1)/32 - 17) to 2^(i/32 - 17) s
	First  int32    `parquet:"first_bin"`
	Counts []uint64 `parquet:"bins,list"`
}

func newRow(i *report.Interval, p *report.Prefix) Row {
	sent, received, h := p.Sent.Total(), p.Received.Total(), &p.RTT
	r := Row{
		Start: i.Start.UTC(), End: i.End.UTC(), Prefix: p.String(),
		SentPackets: sent.Packets, SentBytes: sent.Bytes,
		ReceivedPackets: received.Packets, ReceivedBytes: received.Bytes,
		TCPSegments:     segments(p.Sent) + segments(p.Received),
		Retransmissions: p.Retransmissions, ECNCapable: p.ECNCapable, ECNMarked: p.ECNMarked,
		RTTs: h.Count, Min: int64(h.Min), Max: int64(h.Max), Sum: int64(h.Sum), Width: int64(h.Width),
	}
	if h.Count > 0 {
		r.Median, r.P95 = int64(h.Quantile(0.5)), int64(h.Quantile(0.95))
	}
	r.Counts = h.Bins
	for len(r.Counts) > 0 && r.Counts[0] == 0 {
		r.First, r.Counts = r.First+1, r.Counts[1:]
	}
	return r
}

func segments(t report.PrefixTraffic) uint64 { return t.TCPTimestamps.Packets + t.TCPPlain.Packets }

// Histogram returns the histogram of a row. A row with bins that there are not has none.
func (r *Row) Histogram() report.Histogram {
	h := report.Histogram{
		Count: r.RTTs, Min: time.Duration(r.Min), Max: time.Duration(r.Max), Sum: time.Duration(r.Sum),
		Width: time.Duration(r.Width),
	}
	if r.First < 0 || int(r.First)+len(r.Counts) > report.MaxBins(h.Width) || h.Width < 0 {
		return report.Histogram{}
	}
	if len(r.Counts) > 0 {
		h.Bins = append(make([]uint64, r.First), r.Counts...)
	}
	return h
}
