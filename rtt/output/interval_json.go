package output

import (
	"strings"
	"time"

	"sluice/rtt/report"
)

type jsonAggregation struct {
	Timestamp  int64         `json:"timestamp"`
	Bins       int           `json:"bins"`
	BinWidth   time.Duration `json:"bin_width_ns,omitempty"` // 0: the bins are logarithmic
	Every      time.Duration `json:"aggregation_interval_ns"`
	Timeout    time.Duration `json:"timeout_interval_ns"`
	IPv4Prefix int           `json:"ipv4_prefix_len"`
	IPv6Prefix int           `json:"ipv6_prefix_len"`
	Load       uint64        `json:"load_bytes_per_second,omitempty"`
}

type jsonPrefixTraffic struct {
	TCPTimestamps report.Traffic `json:"TCP_TS,omitzero"`
	TCPPlain      report.Traffic `json:"TCP_noTS,omitzero"`
	Other         report.Traffic `json:"other,omitzero"`
}

type jsonPrefix struct {
	Timestamp int64             `json:"timestamp"`
	Prefix    string            `json:"ip_prefix,omitempty"`
	Group     string            `json:"group,omitempty"` // of prefixes, instead of Prefix
	Peer      string            `json:"peer,omitempty"`  // the prefix or the group at the other end
	Interface string            `json:"interface,omitempty"`
	VLAN      uint16            `json:"vlan,omitempty"`
	InnerVLAN uint16            `json:"inner_vlan,omitempty"`
	Protocol  string            `json:"protocol,omitempty"`
	Sent      jsonPrefixTraffic `json:"rx_stats"` // as ePPing counts: the monitor receives what the prefix sends
	Received  jsonPrefixTraffic `json:"tx_stats"`
	*jsonRTTs
	jsonCongestion

	Congestion map[string]jsonCongestion `json:"congestion,omitempty"` // by direction, as the prefix sees it

	QUICLoss map[string]report.Loss `json:"quic_loss,omitempty"` // by direction, as the prefix sees it

	Parts map[string]*jsonRTTs `json:"parts,omitempty"` // as in report.Prefix.Parts
}

// jsonCongestion are the signs of congestion.
type jsonCongestion struct {
	Retransmissions uint64 `json:"retransmissions,omitempty"`
	ECNCapable      uint64 `json:"ecn_capable,omitempty"`
	ECNMarked       uint64 `json:"ecn_marked,omitempty"`
}

func newJSONCongestion(t report.PrefixTraffic) jsonCongestion {
	return jsonCongestion{t.Retransmissions, t.ECNCapable, t.ECNMarked}
}

// byDirection returns the values of a prefix by direction, without values that are zero.
func byDirection[T comparable](p *report.Prefix, of func(report.PrefixTraffic) T) map[string]T {
	all := make(map[string]T)
	for _, d := range p.Directions() {
		if v := of(d.PrefixTraffic); v != *new(T) {
			all[d.Direction] = v
		}
	}
	return all
}

type jsonRTTs struct {
	Count     uint64        `json:"count_rtt"`
	Min       time.Duration `json:"min_rtt"`
	Mean      time.Duration `json:"mean_rtt"`
	Median    time.Duration `json:"median_rtt"`
	P95       time.Duration `json:"p95_rtt"`
	Max       time.Duration `json:"max_rtt"`
	Histogram []uint64      `json:"histogram,omitempty"` // of linear bins

	Logarithmic *jsonLogarithmic `json:"exponential_histogram,omitempty"`
}

// jsonLogarithmic has the fields of OTLP's ExponentialHistogramDataPoint. Its unit is the second.
type jsonLogarithmic struct {
	Scale         int     `json:"scale"`
	ZeroCount     uint64  `json:"zero_count"` // shorter than ZeroThreshold
	ZeroThreshold float64 `json:"zero_threshold"`
	Positive      struct {
		Offset int      `json:"offset"` // the first bucket begins at this power of 2^(2^-Scale)
		Counts []uint64 `json:"bucket_counts"`
	} `json:"positive"`
}

func newJSONLogarithmic(h *report.Histogram) *jsonLogarithmic {
	j := &jsonLogarithmic{Scale: report.Scale, ZeroCount: h.Bins[0], ZeroThreshold: h.End(0)}
	j.Positive.Offset, j.Positive.Counts = report.FirstPower, h.Bins[1:]
	for len(j.Positive.Counts) > 0 && j.Positive.Counts[0] == 0 {
		j.Positive.Offset, j.Positive.Counts = j.Positive.Offset+1, j.Positive.Counts[1:]
	}
	return j
}

func newJSONRTTs(h *report.Histogram) *jsonRTTs {
	j := &jsonRTTs{
		Count: h.Count, Min: h.Min, Mean: h.Mean(), Median: h.Quantile(0.5), P95: h.Quantile(0.95), Max: h.Max,
	}
	if h.Width == 0 {
		j.Logarithmic = newJSONLogarithmic(h)
	} else {
		j.Histogram = h.Bins
	}
	return j
}

type jsonTotals struct {
	Timestamp int64                     `json:"timestamp"`
	Protocols map[string]report.Traffic `json:"protocol_counters"`
	ECN       map[string]uint64         `json:"ecn_counters"` // packets
	Errors    map[string]uint64         `json:"errors"`
}

func newJSONPrefixTraffic(t *report.PrefixTraffic) jsonPrefixTraffic {
	return jsonPrefixTraffic{t.TCPTimestamps, t.TCPPlain, t.Other}
}

// jsonNames turns names of the standard format into JSON names: ePPing spells them differently.
var jsonNames = strings.NewReplacer("Not-ECT", "no_ECT", "-", "_")
