package rtt

import "time"

type jsonAggregation struct {
	Timestamp  int64         `json:"timestamp"`
	Bins       int           `json:"bins"`
	BinWidth   time.Duration `json:"bin_width_ns"`
	Every      time.Duration `json:"aggregation_interval_ns"`
	Timeout    time.Duration `json:"timeout_interval_ns"`
	IPv4Prefix int           `json:"ipv4_prefix_len"`
	IPv6Prefix int           `json:"ipv6_prefix_len"`
}

type jsonTraffic struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

type jsonPrefixTraffic struct {
	TCPTimestamps *jsonTraffic `json:"TCP_TS,omitempty"`
	TCPPlain      *jsonTraffic `json:"TCP_noTS,omitempty"`
	Other         *jsonTraffic `json:"other,omitempty"`
}

type jsonPrefix struct {
	Timestamp int64              `json:"timestamp"`
	Prefix    string             `json:"ip_prefix"`
	Received  *jsonPrefixTraffic `json:"rx_stats,omitempty"`
	Sent      *jsonPrefixTraffic `json:"tx_stats,omitempty"`
	Count     uint64             `json:"count_rtt"`
	*jsonRTTs
	Retransmissions uint64 `json:"retransmissions,omitempty"`
}

type jsonRTTs struct {
	Min       time.Duration `json:"min_rtt"`
	Mean      time.Duration `json:"mean_rtt"`
	Median    time.Duration `json:"median_rtt"`
	P95       time.Duration `json:"p95_rtt"`
	Max       time.Duration `json:"max_rtt"`
	Histogram []uint64      `json:"histogram"`
}

type jsonTotals struct {
	Timestamp int64                  `json:"timestamp"`
	Protocols map[string]jsonTraffic `json:"protocol_counters"`
	ECN       map[string]jsonTraffic `json:"ecn_counters"`
	Errors    map[string]uint64      `json:"errors"`
}

func (jsonLines) aggregation(b []byte, i *Interval) []byte {
	a := i.Aggregation
	return appendJSON(b, jsonAggregation{i.Start.UnixNano(), Bins, a.BinWidth, a.Every, a.Timeout, a.IPv4Prefix, a.IPv6Prefix})
}

func (jsonLines) prefix(b []byte, i *Interval, p *Prefix) []byte {
	j := jsonPrefix{
		Timestamp: i.End.UnixNano(),
		Prefix:    p.String(),
		Received:  newJSONPrefixTraffic(&p.Received),
		Sent:      newJSONPrefixTraffic(&p.Sent),
		Count:     p.RTT.Count,

		Retransmissions: p.Retransmissions,
	}
	if h := &p.RTT; h.Count > 0 {
		j.jsonRTTs = &jsonRTTs{h.Min, h.Mean(), h.Quantile(0.5), h.Quantile(0.95), h.Max, h.Bins}
	}
	return appendJSON(b, j)
}

func newJSONPrefixTraffic(t *PrefixTraffic) *jsonPrefixTraffic {
	if *t == (PrefixTraffic{}) {
		return nil
	}
	return &jsonPrefixTraffic{newJSONTraffic(t.TCPTimestamps), newJSONTraffic(t.TCPPlain), newJSONTraffic(t.Other)}
}

func newJSONTraffic(t Traffic) *jsonTraffic {
	if t == (Traffic{}) {
		return nil
	}
	return &jsonTraffic{t.Packets, t.Bytes}
}

func (jsonLines) totals(b []byte, i *Interval) []byte {
	j := jsonTotals{i.End.UnixNano(), jsonByName(i.Transports), jsonByName(i.ECN), make(map[string]uint64)}
	for _, e := range i.Errors {
		j.Errors[e.Name] = e.Count
	}
	return appendJSON(b, j)
}

func jsonByName(list []NamedTraffic) map[string]jsonTraffic {
	m := make(map[string]jsonTraffic)
	for _, t := range list {
		m[t.Name] = jsonTraffic{t.Packets, t.Bytes}
	}
	return m
}
