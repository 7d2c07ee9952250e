package report

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Interval is the aggregates between two times.
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
	By                     Keys
	Parts                  bool   // of the path: Prefix.PeerRTT is measured, too
	Load                   uint64 // bytes in a second that make load; 0: Prefix.ByLoad is empty
	OneDirection           bool   // Prefix.OneDirection is measured, too
}

// Prefix is the traffic of a network prefix or of a group of them, and the RTTs of its hosts' replies. With Keys, it is
// a part of these, and there are several with the same prefix.
type Prefix struct {
	netip.Prefix
	Group string // the name of the group; "": Prefix is set

	Peer      string // the prefix or the group at the other end; "": any
	Interface string // "": any
	VLAN      VLAN   // 0: any, or none
	Protocol  string // as in Interval.Transports; "": any

	Received, Sent PrefixTraffic
	RTT            Histogram
	ByLoad         Load      // RTT, in two
	PeerRTT        Histogram // to the hosts that its hosts talk to, from here: the other part of the path
	PeerByLoad     Load      // PeerRTT, in two
	Queries        Histogram // latencies of DNS, NTP and STUN, in which a server may have looked for its answer
	OneDirection   Histogram // RTTs of the whole path, of flows with one direction seen
}

// Load divides RTTs into those while a prefix was under load, and the others: into working and idle latency.
type Load struct {
	Idle, Loaded Histogram
}

// NamedRTTs is a part of the RTTs of a prefix.
type NamedRTTs struct {
	Name string
	RTTs *Histogram
}

// Parts returns the histograms that are not empty, besides RTT.
func (p *Prefix) Parts() []NamedRTTs {
	all := []NamedRTTs{
		{"idle", &p.ByLoad.Idle}, {"loaded", &p.ByLoad.Loaded}, {"peers", &p.PeerRTT},
		{"peers-idle", &p.PeerByLoad.Idle}, {"peers-loaded", &p.PeerByLoad.Loaded}, {"queries", &p.Queries},
		{"one-direction", &p.OneDirection},
	}
	return slices.DeleteFunc(all, func(n NamedRTTs) bool { return n.RTTs.Count == 0 })
}

// Both returns the traffic that its hosts sent and received.
func (p *Prefix) Both() PrefixTraffic { return p.Sent.Plus(p.Received) }

// Directions returns the traffic of each direction.
func (p *Prefix) Directions() []NamedDirection {
	return []NamedDirection{{"sent", p.Sent}, {"received", p.Received}}
}

// NamedDirection is the traffic that a prefix sent, or received.
type NamedDirection struct {
	Direction string
	PrefixTraffic
}

// String returns the prefix, or the name of the group.
func (p *Prefix) String() string {
	if p.Group != "" {
		return p.Group
	}
	return p.Prefix.String()
}

// Label returns all that tells it apart from others.
func (p *Prefix) Label() string {
	b := []byte(p.String())
	if p.Peer != "" {
		b = append(append(b, '+'), p.Peer...)
	}
	if p.Protocol != "" {
		b = append(append(b, ' '), p.Protocol...)
	}
	return string(appendPlace(b, p.Interface, p.VLAN))
}

// Compare orders prefixes.
func (p *Prefix) Compare(o *Prefix) int {
	return cmp.Or(p.Prefix.Compare(o.Prefix), strings.Compare(p.Group, o.Group), strings.Compare(p.Peer, o.Peer),
		strings.Compare(p.Interface, o.Interface), p.VLAN.Compare(o.VLAN), strings.Compare(p.Protocol, o.Protocol))
}

// PrefixTraffic is the traffic of a prefix in one direction, by whether and how its RTTs can be measured, and the signs
// of congestion in it.
type PrefixTraffic struct {
	TCPTimestamps, TCPPlain, Other Traffic

	Retransmissions uint64 // TCP segments that were sent again
	ECNCapable      uint64 // packets that may be marked instead of dropped (RFC 3168)
	ECNMarked       uint64 // marked packets (CE)
	QUIC            Loss
}

// Plus returns the sum.
func (t PrefixTraffic) Plus(o PrefixTraffic) PrefixTraffic {
	return PrefixTraffic{
		t.TCPTimestamps.Plus(o.TCPTimestamps), t.TCPPlain.Plus(o.TCPPlain), t.Other.Plus(o.Other),
		t.Retransmissions + o.Retransmissions, t.ECNCapable + o.ECNCapable, t.ECNMarked + o.ECNMarked,
		t.QUIC.Plus(o.QUIC),
	}
}

// Total returns all of the traffic.
func (t PrefixTraffic) Total() Traffic { return t.TCPTimestamps.Plus(t.TCPPlain).Plus(t.Other) }

// TCPSegments returns the number of TCP segments, retransmissions included.
func (t PrefixTraffic) TCPSegments() uint64 { return t.TCPTimestamps.Packets + t.TCPPlain.Packets }

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
	Events     []NamedCount // of packets, flows and RTTs
	Flows      uint64       // in the flow table now
	FlowLimit  uint64       // how many it has room for
	Transports []NamedTraffic
	ECN        []NamedTraffic
}
