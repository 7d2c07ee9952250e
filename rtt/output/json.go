package output

import (
	"encoding/json"

	"sluice/rtt/report"
)

// jsonLines writes each value as one object. ePPing's fields come first, in its order, then the others.
type jsonLines struct{}

type jsonEnds struct {
	Timestamp       int64  `json:"timestamp"` // ns since 1970
	Source          string `json:"src_ip"`
	SourcePort      uint16 `json:"src_port"`
	Destination     string `json:"dest_ip"`
	DestinationPort uint16 `json:"dest_port"`
	Protocol        string `json:"protocol"`
}

type jsonPlace struct {
	Interface string `json:"interface,omitempty"`
	VLAN      uint16 `json:"vlan,omitempty"`
	InnerVLAN uint16 `json:"inner_vlan,omitempty"`
	VNI       uint32 `json:"vni,omitempty"`
}

type jsonSample struct {
	jsonEnds
	RTT             int64         `json:"rtt"` // ns, as all times
	MinRTT          int64         `json:"min_rtt"`
	SentPackets     uint64        `json:"sent_packets"`
	SentBytes       uint64        `json:"sent_bytes"`
	ReceivedPackets uint64        `json:"rec_packets"`
	ReceivedBytes   uint64        `json:"rec_bytes"`
	OnEgress        bool          `json:"match_on_egress"`
	Method          report.Method `json:"method"`
	Retransmissions uint32        `json:"retransmissions,omitempty"`
	QueryType       string        `json:"query_type,omitempty"`
	RCode           string        `json:"rcode,omitempty"`
	Truncated       bool          `json:"truncated,omitempty"`
	OverTCP         bool          `json:"over_tcp,omitempty"`
	Ambiguous       bool          `json:"ambiguous,omitempty"`
	OneDirection    bool          `json:"one_direction,omitempty"`
	Near            int64         `json:"near_rtt,omitempty"`
	Far             int64         `json:"far_rtt,omitempty"`
	jsonPlace
}

type jsonFlow struct {
	jsonEnds
	Event   string         `json:"flow_event"`
	Reason  report.Reason  `json:"reason"`
	Trigger report.Trigger `json:"triggered_by"`
	jsonPlace
}

func (jsonLines) sample(b []byte, s *report.Sample) []byte {
	j := jsonSample{
		jsonEnds:        newJSONEnds(s.Time.UnixNano(), &s.Ends),
		RTT:             int64(s.RTT),
		MinRTT:          int64(s.MinRTT),
		SentPackets:     s.Sent.Packets,
		SentBytes:       s.Sent.Bytes,
		ReceivedPackets: s.Received.Packets,
		ReceivedBytes:   s.Received.Bytes,
		OnEgress:        s.OnEgress,
		Method:          s.Method,
		Ambiguous:       s.Ambiguous,
		OneDirection:    s.OneDirection,
		Retransmissions: s.Retransmissions,
		jsonPlace:       newJSONPlace(&s.Ends),
	}
	if d := s.DNS; d != nil {
		j.QueryType, j.RCode, j.Truncated, j.OverTCP = d.TypeName(), d.RCodeName(), d.Truncated, d.OverTCP
	}
	if q := s.QUIC; q != nil {
		j.Near, j.Far = int64(q.Near), int64(q.Far)
	}
	return appendJSON(b, j)
}

func (jsonLines) flow(b []byte, f *report.FlowEvent) []byte {
	j := jsonFlow{
		jsonEnds:  newJSONEnds(f.Time.UnixNano(), &f.Ends),
		Event:     "closing",
		Reason:    f.Reason,
		Trigger:   f.Trigger,
		jsonPlace: newJSONPlace(&f.Ends),
	}
	if f.Opening {
		j.Event = "opening"
	}
	return appendJSON(b, j)
}

func newJSONPlace(e *report.Ends) jsonPlace {
	return jsonPlace{e.Interface, e.VLAN.ID, e.VLAN.Inner, e.VNI}
}

func newJSONEnds(timestamp int64, e *report.Ends) jsonEnds {
	return jsonEnds{
		Timestamp:       timestamp,
		Source:          e.Source.Addr().String(),
		SourcePort:      e.Source.Port(),
		Destination:     e.Destination.Addr().String(),
		DestinationPort: e.Destination.Port(),
		Protocol:        e.Protocol,
	}
}

// appendJSON appends a value. None of the types here can fail to be encoded.
func appendJSON(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(b, text...)
}

func (jsonLines) aggregation(b []byte, i *report.Interval) []byte {
	a := i.Aggregation
	return appendJSON(b, jsonAggregation{
		i.Start.UnixNano(), report.MaxBins(a.BinWidth), a.BinWidth, a.Every, a.Timeout, a.IPv4Prefix, a.IPv6Prefix,
		a.Load,
	})
}

func (jsonLines) prefix(b []byte, i *report.Interval, p *report.Prefix) []byte {
	j := jsonPrefix{
		Timestamp: i.End.UnixNano(),
		Group:     p.Group,
		Peer:      p.Peer,
		Interface: p.Interface,
		VLAN:      p.VLAN.ID,
		InnerVLAN: p.VLAN.Inner,
		Protocol:  p.Protocol,
		Received:  newJSONPrefixTraffic(&p.Received),
		Sent:      newJSONPrefixTraffic(&p.Sent),

		jsonCongestion: newJSONCongestion(p.Both()), Congestion: byDirection(p, newJSONCongestion),
		QUICLoss: byDirection(p, func(t report.PrefixTraffic) report.Loss { return t.QUIC }),
	}
	if p.Group == "" {
		j.Prefix = p.String()
	}
	if h := &p.RTT; h.Count > 0 {
		j.jsonRTTs = newJSONRTTs(h)
	}
	for _, part := range p.Parts() {
		if j.Parts == nil {
			j.Parts = make(map[string]*jsonRTTs)
		}
		j.Parts[jsonNames.Replace(part.Name)] = newJSONRTTs(part.RTTs)
	}
	return appendJSON(b, j)
}

func (jsonLines) totals(b []byte, i *report.Interval) []byte {
	j := jsonTotals{i.End.UnixNano(), make(map[string]report.Traffic), make(map[string]uint64), make(map[string]uint64)}
	for _, t := range i.Transports {
		j.Protocols[jsonNames.Replace(t.Name)] = t.Traffic
	}
	for _, e := range i.ECN {
		j.ECN[jsonNames.Replace(e.Name)] = e.Packets
	}
	for _, e := range i.Errors {
		j.Errors[jsonNames.Replace(e.Name)] = e.Count
	}
	return appendJSON(b, j)
}
