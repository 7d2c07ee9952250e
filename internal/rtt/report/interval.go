package report

import (
	"net/netip"
	"time"
)

// Interval is what was aggregated between two times.
type Interval struct {
	Aggregation *Aggregation
	Start, End  time.Time
	Prefixes    []Prefix // sorted; prefixes without traffic are left out
	Transports  []NamedTraffic
	ECN         []NamedTraffic
	Errors      []NamedCount
}

// Aggregation is the configuration that an Interval was aggregated with.
type Aggregation struct {
	Every, Timeout         time.Duration // Timeout 0: none
	BinWidth               time.Duration
	IPv4Prefix, IPv6Prefix int // bits
}

// Prefix is the traffic of a network prefix or of a group of them, and the RTTs of its hosts' replies.
type Prefix struct {
	netip.Prefix
	Group string // the name of the group; "": Prefix is set

	Received, Sent  PrefixTraffic
	Retransmissions uint64 // TCP segments from or to its hosts that were sent again
	ECNCapable      uint64 // packets from or to them that may be marked instead of dropped (RFC 3168)
	ECNMarked       uint64 // those that were (CE)
	RTT             Histogram
}

// String returns the prefix, or the name of the group.
func (p *Prefix) String() string {
	if p.Group != "" {
		return p.Group
	}
	return p.Prefix.String()
}

// PrefixTraffic is the traffic of a prefix, by whether and how its RTTs can be measured.
type PrefixTraffic struct {
	TCPTimestamps, TCPPlain, Other Traffic
}

// Total returns all of the traffic.
func (t PrefixTraffic) Total() Traffic { return t.TCPTimestamps.Plus(t.TCPPlain).Plus(t.Other) }

// NamedTraffic is the traffic of a protocol or of an ECN codepoint.
type NamedTraffic struct {
	Name string
	Traffic
}

// NamedCount is how often something happened.
type NamedCount struct {
	Name  string
	Count uint64
}

// Counters are the counts of the kernel programs since they were loaded.
type Counters struct {
	Outcomes   []NamedCount // of packets: each has exactly one
	Events     []NamedCount // what happened to packets, flows and RTTs
	Flows      uint64       // in the flow table now
	Transports []NamedTraffic
	ECN        []NamedTraffic
}
