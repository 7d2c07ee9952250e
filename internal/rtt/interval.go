package rtt

import (
	"net/netip"
	"time"

	"sluice/internal/rtt/bpf"
)

// Interval is what was aggregated in some time.
type Interval struct {
	Aggregation *Aggregation
	Start, End  time.Time
	Prefixes    []Prefix // in order; those without traffic are left out
	Transports  []NamedTraffic
	ECN         []NamedTraffic
	Errors      []NamedCount
}

// Aggregation says how was aggregated.
type Aggregation struct {
	Every, Timeout         time.Duration // Timeout 0: none
	BinWidth               time.Duration
	IPv4Prefix, IPv6Prefix int // bits
}

// Prefix is what a network prefix received and sent, and the RTTs of its hosts' replies.
type Prefix struct {
	netip.Prefix
	Received, Sent  PrefixTraffic
	Retransmissions uint64 // TCP segments that its hosts sent or should have received, and were sent again
	RTT             Histogram
}

// PrefixTraffic is the traffic of a prefix, by whether and how its RTTs can be measured.
type PrefixTraffic struct {
	TCPTimestamps, TCPPlain, Other Traffic
}

// Total is all of the traffic.
func (t PrefixTraffic) Total() Traffic { return t.TCPTimestamps.plus(t.TCPPlain).plus(t.Other) }

func (t Traffic) plus(u Traffic) Traffic { return Traffic{t.Packets + u.Packets, t.Bytes + u.Bytes} }

// NamedTraffic is the traffic of a protocol or an ECN codepoint.
type NamedTraffic struct {
	Name string
	Traffic
}

// NamedCount is how often something happened.
type NamedCount struct {
	Name  string
	Count uint64
}

// Names of what is counted for all prefixes together.
var (
	transportNames = [...]string{"non-IP", "TCP", "UDP", "ICMP", "ICMPv6", "other"}
	ecnNames       = [...]string{"Not-ECT", "ECT1", "ECT0", "CE"}
	errorNames     = [...]struct {
		name  string
		tally bpf.MonitorTally
	}{
		{"store-packet-ts", bpf.MonitorTallyTALLY_STAMPS_EVICTED},
		{"create-flow-state", bpf.MonitorTallyTALLY_FLOWS_FULL},
		{"create-agg-subnet-state", bpf.MonitorTallyTALLY_PREFIXES_FULL},
	}
)

// setTotals fills in what happened between two readings of the counters. What did not happen is left out.
func (i *Interval) setTotals(before, after *bpf.MonitorCounterSet) {
	for n, name := range transportNames {
		i.Transports = appendTraffic(i.Transports, name, before.Transport[n], after.Transport[n])
	}
	for n, name := range ecnNames {
		i.ECN = appendTraffic(i.ECN, name, before.Ecn[n], after.Ecn[n])
	}
	for _, e := range errorNames {
		if n := after.Tally[e.tally] - before.Tally[e.tally]; n > 0 {
			i.Errors = append(i.Errors, NamedCount{e.name, n})
		}
	}
}

func appendTraffic(list []NamedTraffic, name string, before, after bpf.MonitorTraffic) []NamedTraffic {
	t := Traffic{after.Packets - before.Packets, after.Bytes - before.Bytes}
	if t == (Traffic{}) {
		return list
	}
	return append(list, NamedTraffic{name, t})
}
