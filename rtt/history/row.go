package history

import (
	"time"

	"sluice/rtt/report"
)

// Row is the aggregate of one prefix in one interval. Times are in UTC, and RTTs in ns.
type Row struct {
	Start time.Time `parquet:"start,timestamp(microsecond)"`
	End   time.Time `parquet:"end,timestamp(microsecond)"`

	Prefix    string `parquet:"prefix,dict"` // or the name of a group
	Peer      string `parquet:"peer,dict"`   // tells it apart from others with the same prefix
	Interface string `parquet:"interface,dict"`
	VLAN      uint16 `parquet:"vlan"`
	InnerVLAN uint16 `parquet:"inner_vlan"`
	Protocol  string `parquet:"protocol,dict"`

	// Of all protocols, from the prefix's view.
	SentPackets     uint64 `parquet:"sent_packets"`
	SentBytes       uint64 `parquet:"sent_bytes"`
	ReceivedPackets uint64 `parquet:"received_packets"`
	ReceivedBytes   uint64 `parquet:"received_bytes"`

	// To and from the prefix.
	TCPSegments     uint64 `parquet:"tcp_segments"`
	Retransmissions uint64 `parquet:"retransmissions"`
	ECNCapable      uint64 `parquet:"ecn_capable"`
	ECNMarked       uint64 `parquet:"ecn_marked"`

	// The same of each direction. In files of earlier versions it is 0.
	SentTCPSegments         uint64 `parquet:"sent_tcp_segments"`
	SentRetransmissions     uint64 `parquet:"sent_retransmissions"`
	SentECNCapable          uint64 `parquet:"sent_ecn_capable"`
	SentECNMarked           uint64 `parquet:"sent_ecn_marked"`
	ReceivedTCPSegments     uint64 `parquet:"received_tcp_segments"`
	ReceivedRetransmissions uint64 `parquet:"received_retransmissions"`
	ReceivedECNCapable      uint64 `parquet:"received_ecn_capable"`
	ReceivedECNMarked       uint64 `parquet:"received_ecn_marked"`

	// By the loss bits of QUIC, as in report.Loss.
	QUICSent             uint64 `parquet:"quic_sent"`
	QUICSentPassed       uint64 `parquet:"quic_sent_passed"`
	QUICSentReported     uint64 `parquet:"quic_sent_reported"`
	QUICReceived         uint64 `parquet:"quic_received"`
	QUICReceivedPassed   uint64 `parquet:"quic_received_passed"`
	QUICReceivedReported uint64 `parquet:"quic_received_reported"`

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

	Parts []Part `parquet:"parts,list"`
}

// Part is a histogram of some of the RTTs of a prefix. Its bins are as wide as the row's.
type Part struct {
	Name   string   `parquet:"name,dict"` // as in report.Prefix.Parts
	RTTs   uint64   `parquet:"rtts"`
	Min    int64    `parquet:"rtt_min"`
	Median int64    `parquet:"rtt_median"`
	P95    int64    `parquet:"rtt_p95"`
	Max    int64    `parquet:"rtt_max"`
	Sum    int64    `parquet:"rtt_sum"`
	First  int32    `parquet:"first_bin"`
	Counts []uint64 `parquet:"bins,list"`
}

func newRow(i *report.Interval, p *report.Prefix) Row {
	sent, received := p.Sent.Total(), p.Received.Total()
	r := Row{
		Start: i.Start.UTC(), End: i.End.UTC(), Prefix: p.String(),
		Peer: p.Peer, Interface: p.Interface, VLAN: p.VLAN.ID, InnerVLAN: p.VLAN.Inner, Protocol: p.Protocol,
		SentPackets: sent.Packets, SentBytes: sent.Bytes,
		ReceivedPackets: received.Packets, ReceivedBytes: received.Bytes,
		QUICSent: p.Sent.QUIC.All, QUICSentPassed: p.Sent.QUIC.Passed, QUICSentReported: p.Sent.QUIC.Reported,
		QUICReceived: p.Received.QUIC.All, QUICReceivedPassed: p.Received.QUIC.Passed,
		QUICReceivedReported: p.Received.QUIC.Reported,
		Width:                int64(widthOf(i, p)),
	}
	r.setCongestion(p)
	r.setRTTs(&p.RTT)
	for _, part := range p.Parts() {
		r.Parts = append(r.Parts, newPart(part.Name, part.RTTs))
	}
	return r
}

// setCongestion sets the columns about congestion.
func (r *Row) setCongestion(p *report.Prefix) {
	both := p.Both()
	r.TCPSegments, r.Retransmissions = both.TCPSegments(), both.Retransmissions
	r.ECNCapable, r.ECNMarked = both.ECNCapable, both.ECNMarked
	r.SentTCPSegments, r.SentRetransmissions = p.Sent.TCPSegments(), p.Sent.Retransmissions
	r.SentECNCapable, r.SentECNMarked = p.Sent.ECNCapable, p.Sent.ECNMarked
	r.ReceivedTCPSegments, r.ReceivedRetransmissions = p.Received.TCPSegments(), p.Received.Retransmissions
	r.ReceivedECNCapable, r.ReceivedECNMarked = p.Received.ECNCapable, p.Received.ECNMarked
}

// widthOf returns the width of the bins of a prefix. A histogram without RTTs need not know it.
func widthOf(i *report.Interval, p *report.Prefix) time.Duration {
	if p.RTT.Count > 0 {
		return p.RTT.Width
	}
	for _, part := range p.Parts() {
		return part.RTTs.Width
	}
	return i.Aggregation.BinWidth
}

// setRTTs sets the columns of the RTTs.
func (r *Row) setRTTs(h *report.Histogram) {
	p := newPart("", h)
	r.RTTs, r.Min, r.Median, r.P95, r.Max, r.Sum = p.RTTs, p.Min, p.Median, p.P95, p.Max, p.Sum
	r.First, r.Counts = p.First, p.Counts
}

func newPart(name string, h *report.Histogram) Part {
	p := Part{
		Name: name, RTTs: h.Count, Min: int64(h.Min), Median: int64(h.Quantile(0.5)), P95: int64(h.Quantile(0.95)),
		Max: int64(h.Max), Sum: int64(h.Sum),
	}
	p.First, p.Counts = firstBin(h.Bins)
	return p
}

// firstBin leaves empty bins at the start out.
func firstBin(bins []uint64) (first int32, counts []uint64) {
	for len(bins) > 0 && bins[0] == 0 {
		first, bins = first+1, bins[1:]
	}
	return first, bins
}

// About returns the subject of a row, as a prefix that has its name in Group.
func (r *Row) About() *report.Prefix {
	return &report.Prefix{
		Group: r.Prefix, Peer: r.Peer, Interface: r.Interface, VLAN: report.VLAN{ID: r.VLAN, Inner: r.InnerVLAN},
		Protocol: r.Protocol,
	}
}
